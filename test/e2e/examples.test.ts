/** The programs of docs/examples, run as they are printed: readers copy them. receiver.py has a test of its own (test/webhooks/). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { before, describe, type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import { environment, killGroup, ROOT, startDaemon, startProcess, temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { startBoth } from './hub.ts';
import { apiOf, create, dictionary, update } from './hub-support.ts';
import { LIBRARIES, PYTHON, pythonMissing, stubsDir } from './python.ts';
import { logOf } from './upstream-reader.ts';
import { config, DEVICE, shipped, writeEntries } from './upstream-support.ts';

/** Beside the stubs, as its first lines ask; its lines as they come, and the end of it. */
function runExample(t: TestContext, name: string, args: readonly string[]) {
  const program = join(stubsDir(), name);
  copyFileSync(join(ROOT, 'docs/examples', name), program);
  const child = startProcess(PYTHON, [program, ...args], environment(LIBRARIES));
  t.after(() => killGroup(child));
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('no pipes to the example');
  const lines: string[] = [];
  createInterface({ input: stdout }).on('line', (line) => lines.push(line));
  const complaint = text(stderr);
  return { lines, ended: once(child, 'close').then(([status]) => ({ status, complaint })) };
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

describe('the consumers', {
  skip: brokerMissing || pythonMissing('confluent_kafka, google.protobuf'),
  concurrency: true,
}, () => {
  let kafka: TestBroker;
  before(async () => {
    kafka = await startBroker();
  });

  test('consumer.py keeps a copy of the records, the newest version of each', async (t) => {
    const topic = 'refdata.cuod.events.public';
    const hub = await startBoth({ config: config(kafka, 'examples.log', { to: 'off' }) });
    const file = join(temporaryDirectory(), 'records.db');
    // One of its topics is not there yet.
    const first = runExample(t, 'consumer.py', [kafka.plain, file, topic, 'refdata.cuod.events.later']);
    const api = apiOf(hub);
    await dictionary(api, 'tools');
    await create(api, 'tools', 'T-1', { newtonMetres: 40 });
    await until('the record is copied', () => first.lines.includes(`created ${DEVICE} tools T-1 1`), 60_000);
    await update(api, 'tools', 'T-1', 1, { newtonMetres: 60 });
    await until('the change is copied', () => first.lines.includes(`updated ${DEVICE} tools T-1 2`), 60_000);
    const base = new Database(file, { readonly: true });
    t.after(() => base.close());
    assert.deepEqual(base.prepare('SELECT device, key, version, data FROM record').all(), [
      { device: DEVICE, key: 'T-1', version: 2, data: '{"newtonMetres": 60}' },
    ]);
  });

  test('upstream.py prints every stored entry once', async (t) => {
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
});
