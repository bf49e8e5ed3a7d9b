/** A second `lineside serve` in the same place: it is refused before it touches anything of the first one. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Long from 'long';
import { type Client, runDaemonToEnd, startDaemon } from './daemon.ts';
import { isAlive, startBoth } from './hub.ts';

const SIMULATED = { serial: { simulate: true } };

async function lastId(client: Client): Promise<number> {
  await client.serial.logRaw({ dir: 1, timestamp: Long.fromNumber(5), rawData: Buffer.from('x'), note: '' });
  const { log } = await client.line.getStatus({});
  return Number(log?.lastId ?? 0);
}

test('a second service ends with the number of the first, whose port, log and hub it does not touch', async () => {
  const first = await startBoth({ config: SIMULATED });
  const link = join(first.dir, 'run/sim0');
  const port = readlinkSync(link);
  const id = await lastId(first.client);
  for (const role of ['both', 'line'] as const) {
    const { status, log } = await runDaemonToEnd({ dir: first.dir, role });
    assert.equal(status, 1);
    assert.match(
      log,
      new RegExp(
        `^\\S+ error cannot start error="lineside is already running \\(process ${first.linePid}\\)" hint="It uses .*"$`,
      ),
    );
  }
  assert.equal(readlinkSync(link), port);
  const { devices } = await first.client.serial.listDevices({});
  assert.ok(devices?.some(({ portName }) => portName === link));
  assert.equal(await lastId(first.client), id + 1);
  assert.ok(isAlive(first.pid()));
  assert.equal(await first.stop(), 0);
  assert.deepEqual(
    ['hub', 'line'].map((role) => readFileSync(join(first.dir, `data/${role}.lock`), 'utf8')),
    ['', ''],
  );
});

test('a service that was killed keeps nobody out: the next one starts at once', async () => {
  const config = SIMULATED;
  let line = await startDaemon({ config });
  for (let times = 0; times < 3; times++) {
    await line.kill();
    line = await startDaemon({ dir: line.dir });
    const next = line;
    // A disk that other tests keep busy is reported, rightly.
    const faults = next.logLines.filter(
      (text) => / (warn|error) /.test(text) && !text.includes('has not answered for'),
    );
    assert.deepEqual(faults, []);
  }
  assert.equal(await line.stop(), 0);
  assert.deepEqual(
    readdirSync(join(line.dir, 'run')).filter((name) => name !== 'grpc.sock'),
    [],
  );
});
