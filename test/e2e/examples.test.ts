/**
 * The programs of docs/examples, run as they are printed: readers copy them. receiver.py has a test of its own (test/webhooks/),
 * consumer.py is in hub-kill.test.ts, and client.py prints what is logged in documented-sessions.test.ts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker } from '../kafka/broker.ts';
import { killGroup, startDaemon } from './daemon.ts';
import { openPort } from './faults.ts';
import { startBoth } from './hub.ts';
import { pythonMissing, startExample } from './python.ts';
import { logOf } from './upstream-reader.ts';
import { config, DEVICE, shipped, writeEntries } from './upstream-support.ts';

function runExample(t: TestContext, name: string, args: readonly string[]) {
  const example = startExample(name, args);
  t.after(() => killGroup(example.child));
  return example;
}

test('client.py reports why the service refuses', { skip: pythonMissing('grpc, google.protobuf') }, async (t) => {
  const daemon = await startDaemon();
  const refused = runExample(t, 'client.py', [`unix:${daemon.socket}`, '/dev/ttyNone', '9600', 'x']);
  const { status, complaint } = await within('the refused client ends', refused.ended);
  assert.equal(status, 1);
  assert.match(await complaint, /^NOT_FOUND: /);
});

test('upstream.py prints every stored entry once', {
  skip: brokerMissing || pythonMissing('confluent_kafka, google.protobuf'),
}, async (t) => {
  const kafka = await startBroker();
  const topic = 'examples.log';
  const both = await startBoth({ config: config(kafka, topic) });
  await openPort(both.client, `${both.dir}/run/sim0`);
  await writeEntries(both.client, 200);
  assert.equal((await both.client.serial.close({})).status, 0);
  await shipped(both);
  const { entries } = await logOf(both.client);
  const { lines } = runExample(t, 'upstream.py', [kafka.plain, topic]);
  await until('the last is printed', () => lines.length >= entries.size);
  const ids = lines.map((line) => Number(new RegExp(`^${DEVICE} (\\d+) \\d+ [RT]X b`).exec(line)?.[1]));
  assert.deepEqual(ids, [...entries.keys()]);
  const { ended } = runExample(t, 'upstream.py', [kafka.plain, topic, '1']);
  assert.equal((await within('the end after a second of silence', ended)).status, 0);
});
