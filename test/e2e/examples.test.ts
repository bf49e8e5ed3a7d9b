/**
 * The programs of docs/examples, run as they are printed: readers copy them. receiver.py has a test of its own (test/webhooks/), and
 * consumer.py is in hub-kill.test.ts.
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

test('client.py opens the port, sends, and prints what is logged', {
  skip: pythonMissing('grpc, google.protobuf'),
}, async (t) => {
  const daemon = await startDaemon({ config: { serial: { simulate: true } } });
  const address = `unix:${daemon.socket}`;
  const { lines } = runExample(t, 'client.py', [address, `${daemon.dir}/run/sim0`, '115200', 'PING']);
  await until('the answer is printed', () => lines.some((line) => / RX .*PONG/.test(line)));
  assert.ok(
    lines.some((line) => /^\d{13} TX b'PING\\r\\n' $/.test(line)),
    lines.join('\n'),
  );
  const other = runExample(t, 'client.py', [address, '/dev/ttyNone', '9600', 'x']);
  const { status, complaint } = await within('the refused client ends', other.ended);
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
