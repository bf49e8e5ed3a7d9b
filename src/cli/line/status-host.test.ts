/** The status asks the hub for the machine, and does without it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { run } from '../drive.fixture.ts';
import type { JsonObject } from '../output/json.ts';
import { FakeService } from './fake-service.fixture.ts';

const facts: JsonObject = {
  bootId: 'boot',
  uptimeSeconds: 7_380,
  ageSeconds: 1,
  temperatureCelsius: 51.5,
  throttled: 'unknown',
  underVoltage: 'no',
  memory: { totalBytes: 1_000_000_000, availableBytes: 400_000_000 },
  load: { averages: [0.5, 0.4, 0.3], processors: 4, usedPercent: null },
  disk: {
    totalBytes: 16_000_000_000,
    freeBytes: 8_000_000_000,
    writtenBytes: 12_300_000,
    writtenBytesEver: null,
    lifeUsedPercent: 30,
    reserve: 'urgent',
  },
  clock: 'unsynced',
  boots: { count: 9, powerLosses: 2, afterPowerLoss: true },
  slot: { name: 'b', trying: true, dataLost: true, updateFailed: false },
};

interface Places {
  readonly socket: string;
  readonly httpSocket: string;
}

async function places(t: TestContext): Promise<Places> {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-status-host-'));
  const service = new FakeService();
  service.setStatus({ portState: 1, log: { state: 1 }, version: '9.9' });
  const socket = join(dir, 'grpc.sock');
  await service.listen(`unix:${socket}`);
  t.after(() => {
    service.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return { socket, httpSocket: join(dir, 'http.sock') };
}

async function hub(t: TestContext, { httpSocket }: Places, answer: string | undefined): Promise<void> {
  const server: Server = createServer((request, response) => {
    assert.equal(request.url, '/api/v1/admin/host');
    if (answer === undefined) return;
    response.setHeader('content-type', 'application/json').end(answer);
  });
  await new Promise<void>((resolve) => server.listen(httpSocket, resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
}

test('the machine stands below the service, what cannot be told as unknown', async (t) => {
  const where = await places(t);
  await hub(t, where, JSON.stringify(facts));
  const { stdout, status } = await run(['status', '--timeout', '60'], { ...where });
  assert.equal(status, 0);
  const host = stdout.slice(stdout.indexOf('\nHost') + 1).replaceAll(/ +/g, ' ');
  assert.equal(
    host,
    [
      'Host temperature 51.5 °C, processors used unknown, memory 400 MB of 1.0 GB available, voltage ok, throttling unknown',
      " disk 8.0 GB of 16.0 GB free, 12.3 MB written since boot, up to 30 % of the card's life time used, spare blocks: URGENT",
      ' up 2 h 3 min, clock NOT SET, power lost 2 times in 9 boots, the last before this boot',
      ' system b, on trial, DATA PARTITION NOT MOUNTED: all is lost with the power',
      '',
    ].join('\n'),
  );
  const json = JSON.parse((await run(['status', '--json', '--timeout', '60'], { ...where })).stdout) as {
    host: JsonObject;
  };
  assert.deepEqual(json.host, facts);
});

test('a hub that is not there, hangs, or says nonsense costs the status nothing but its part', async (t) => {
  for (const answer of ['absent', undefined, '{}', '{"temperatureCelsius":"hot"}', 'no json']) {
    const where = await places(t);
    if (answer !== 'absent') await hub(t, where, answer);
    const { stdout, stderr, status } = await run(['status'], { ...where });
    assert.deepEqual([status, stderr], [0, ''], String(answer));
    assert.match(stdout, /^Service/m);
    assert.doesNotMatch(stdout, /^Host/m);
  }
});

test("a socket that was named is the line's: nobody asks it for the machine", async (t) => {
  const where = await places(t);
  const { stdout, status } = await run(['status', '--json', '--socket', where.socket], {
    httpSocket: where.httpSocket,
  });
  assert.deepEqual([status, (JSON.parse(stdout) as { host: null }).host], [0, null]);
});
