import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import Long from 'long';
import type { Clock } from '../../shared/base/clock.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { temporaryStore } from '../outbox/change-store.fixture.ts';
import type { ChangeStoreOptions } from '../outbox/change-store.ts';
import { scopes } from '../outbox/event.ts';
import { openRefdata } from '../refdata/refdata.ts';
import { DeviceFacts, factsOf, type LineFacts } from './device-facts.ts';

const actor = { name: 'test', scopes };
const usb = { portName: '/dev/ttyUSB0', description: 'FT232R', hardwareId: 'USB VID:PID=0403:6001' };
const uart = { portName: '/dev/ttyAMA0', description: '', hardwareId: 'platform:fe201000.serial' };
const closed: LineFacts['status'] = { portState: 1, requested: null, portError: '', currentPortName: '' };
const opened: LineFacts['status'] = {
  portState: 3,
  requested: { portName: '/dev/ttyUSB0', baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 },
  portError: '',
  currentPortName: '/dev/ttyUSB0',
};
const page = { limit: 100, cursor: undefined };

/** A real store, and a line that says what the test wants; undefined: it does not answer. */
function keep(t: TestContext, first: LineFacts | undefined, changes: Partial<ChangeStoreOptions> = {}) {
  const { store, clock, path } = temporaryStore(t, changes);
  const limits = { maxBytes: 1 << 30, maxImportBytes: 1 << 20 };
  const refdata = openRefdata({ store, path, ...limits, clock, logger: silentLogger });
  const { logger, lines: logged } = recordingLogger();
  let facts = first;
  let looks = 0;
  const look = async (): Promise<LineFacts> => {
    looks++;
    if (facts === undefined) throw new Error(`no socket, try ${looks}`);
    return facts;
  };
  /** Set while the loop waits for its next round, which alone is a wait of 2 s. */
  let resting = false;
  const watched: Clock = {
    wallMs: () => clock.wallMs(),
    monoMs: () => clock.monoMs(),
    timer(delayMs, call) {
      if (delayMs !== 2_000) return clock.timer(delayMs, call);
      resting = true;
      return clock.timer(delayMs, () => {
        resting = false;
        call();
      });
    },
  };
  const keeper = new DeviceFacts({ look, refdata, deviceId: 'box', clock: watched, logger });
  t.after(async () => {
    await keeper.stop();
    await refdata.close();
  });
  const idle = (): Promise<boolean> => until('the round ends', () => resting);
  return {
    refdata,
    logged,
    keeper,
    looks: () => looks,
    /** What the line says from now on, and the next rounds for so long. */
    async say(next: LineFacts | undefined, forMs = 2_000): Promise<void> {
      await idle();
      facts = next;
      for (let ms = 0; ms < forMs; ms += 2_000) {
        clock.advance(2_000);
        await idle();
      }
    },
    idle,
    ports: () => refdata.records(actor, 'device.ports', {}, page).items,
    line: () => refdata.record(actor, 'device.line', 'line', undefined),
    lineVersions: () => refdata.history(actor, 'device.line', 'line', page).items.length,
  };
}

test('both dictionaries are made, INTERNAL, with a record for each port and one for the line', async (t) => {
  const kept = keep(t, { devices: [usb, uart], status: closed });
  await kept.idle();
  for (const name of ['device.ports', 'device.line']) {
    assert.equal(kept.refdata.dictionary(actor, name).scope, 'INTERNAL');
  }
  const ports = kept.ports();
  assert.deepEqual(
    ports.map(({ businessKey, changedBy, version }) => [businessKey, changedBy, version]),
    [
      ['/dev/ttyAMA0', 'device', 1],
      ['/dev/ttyUSB0', 'device', 1],
    ],
  );
  assert.deepEqual(ports[1]?.data, { deviceId: 'box', ...usb });
  assert.equal(kept.line().data['state'], 'closed');
});

test('the line lists its ports when they may have changed, when it was restarted, and each minute', async () => {
  const clock = new FakeClock();
  let [changes, startedMs, lists] = [0, -1_000, 0];
  const client = {
    line: {
      getStatus: async () => ({
        ...closed,
        portListChanges: Long.fromNumber(changes, true),
        uptimeMs: Long.fromNumber(clock.monoMs() - startedMs, true),
      }),
    },
    serial: {
      listDevices: async () => {
        lists++;
        return { devices: lists < 2 ? [uart] : [uart, usb] };
      },
    },
  } as unknown as LineClient;
  const look = factsOf(client, clock);
  const after = async (ms: number): Promise<readonly number[]> => {
    clock.advance(ms);
    const { devices } = await look(AbortSignal.timeout(10_000));
    return [lists, devices.length];
  };
  await look(AbortSignal.timeout(10_000));
  assert.deepEqual(await after(2_000), [1, 1]);
  changes = 1;
  assert.deepEqual(await after(2_000), [2, 2]);
  assert.deepEqual(await after(2_000), [2, 2]);
  startedMs = clock.monoMs() + 1_000;
  assert.deepEqual(await after(2_000), [3, 2]);
  assert.deepEqual(await after(59_999), [3, 2]);
  assert.deepEqual(await after(1), [4, 2]);
});

test('nothing is written while nothing changes', async (t) => {
  const facts = { devices: [usb], status: closed };
  const kept = keep(t, facts);
  await kept.say({ ...facts }, 60_000);
  assert.equal(kept.ports()[0]?.version, 1);
  assert.equal(kept.lineVersions(), 1);
  assert.deepEqual(kept.logged, []);
});

test('a port that goes is closed, and counted on when it returns', async (t) => {
  const kept = keep(t, { devices: [usb, uart], status: closed });
  await kept.idle();
  await kept.say({ devices: [uart], status: closed }, 12_000);
  assert.deepEqual(
    kept.ports().map(({ businessKey }) => businessKey),
    ['/dev/ttyAMA0'],
  );
  await kept.say({ devices: [usb, uart], status: closed }, 12_000);
  const back = kept.ports().find(({ businessKey }) => businessKey === '/dev/ttyUSB0');
  assert.deepEqual([back?.action, back?.version], ['created', 3]);
});

test('a record is changed once in 10 s at most, and ends with the newest state', async (t) => {
  const kept = keep(t, { devices: [], status: closed });
  await kept.idle();
  // Every 2 s another state, for 30 s.
  for (let i = 0; i < 15; i++) await kept.say({ devices: [], status: i % 2 === 0 ? opened : closed });
  const versions = kept.lineVersions();
  assert.ok(versions >= 2 && versions <= 1 + 3, `${versions} versions`);
  await kept.say({ devices: [], status: opened }, 12_000);
  assert.equal(kept.line().data['state'], 'open');
});

test('a line that does not answer changes nothing for 30 s, then its state is unknown; logged once', async (t) => {
  const kept = keep(t, { devices: [usb], status: opened });
  await kept.idle();
  await kept.say(undefined, 28_000);
  assert.equal(kept.line().data['state'], 'open');
  assert.deepEqual(kept.logged, []);
  await kept.say(undefined, 30_000);
  const { data, version } = kept.line();
  assert.deepEqual([data['state'], data['portName'], version], ['unknown', '/dev/ttyUSB0', 2]);
  assert.equal(kept.ports().length, 1, 'the ports stay as they were');
  assert.equal(kept.logged.length, 1);
  assert.match(kept.logged[0] ?? '', /not up to date.*does not answer: no socket/);
  await kept.say({ devices: [usb], status: opened }, 2_000);
  assert.equal(kept.line().data['state'], 'open');
  assert.match(kept.logged[1] ?? '', /up to date again/);
});

test('a line that was never there is unknown too', async (t) => {
  const kept = keep(t, undefined);
  await kept.say(undefined, 32_000);
  assert.equal(kept.line().data['state'], 'unknown');
});

test('while the store is full it retries, logs that once, and stops when asked', async (t) => {
  const kept = keep(t, { devices: [usb], status: closed }, { minFreeBytes: Number.MAX_SAFE_INTEGER });
  await kept.say({ devices: [usb], status: closed }, 10_000);
  assert.equal(kept.logged.length, 1, kept.logged.join('\n'));
  assert.match(kept.logged[0] ?? '', /no room for changes/);
  assert.ok(kept.looks() > 5);
  await kept.keeper.stop();
});

test('a fact that another client overwrote is corrected', async (t) => {
  const facts = { devices: [usb], status: closed };
  const kept = keep(t, facts);
  await kept.say(facts, 12_000);
  await kept.refdata.updateRecord(actor, 'device.ports', '/dev/ttyUSB0', { data: { wrong: true } }, 1);
  await kept.say(facts);
  assert.deepEqual(kept.ports()[0]?.data, { deviceId: 'box', ...usb });
});

test('a dictionary whose schema has no place for the facts is reported once, and left alone', async (t) => {
  const kept = keep(t, undefined);
  await kept.idle();
  const schema = { type: 'object', required: ['other'] };
  await kept.refdata.createDictionary(actor, { name: 'device.ports', title: 'x', scope: 'PUBLIC', schema }, '');
  await kept.say({ devices: [usb], status: closed }, 10_000);
  assert.equal(kept.ports().length, 0);
  assert.equal(kept.line().data['state'], 'closed', 'the line is kept all the same');
  assert.equal(kept.logged.length, 1, kept.logged.join('\n'));
});
