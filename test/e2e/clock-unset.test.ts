/** A box whose clock is not set: what it logs is marked, and right once time sync has set the clock (libfaketime). */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Long from 'long';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { fakeTime, withoutFaketime } from './faketime.ts';
import { cli, everythingAfter, openPort, RX } from './faults.ts';
import { namedPty } from './pty.ts';

const skip = withoutFaketime;
const { ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } =
  lineside.v1.EntryClock;
const { CLOCK_STATE_SET, CLOCK_STATE_NOT_SET } = lineside.v1.ClockState;
/** Between two clocks of two processes, on a machine that does much else; far below the years that the clock is off. */
const TOLERANCE_MS = 1_000;
const YEAR_MS = 365 * 86_400_000;

/** A machine with its clock and time sync; the daemon on it can be started again and again. */
class Box {
  readonly dir = temporaryDirectory();
  readonly pty = namedPty(this.dir);
  readonly time = fakeTime(this.dir, '-8y');
  readonly #timesync = join(this.dir, 'timesync');
  /** When each note was logged, by the right clock. */
  readonly logged = new Map<string, number>();

  constructor() {
    mkdirSync(this.#timesync);
  }
  sync(): void {
    writeFileSync(join(this.#timesync, 'synchronized'), '');
  }
  start(): Promise<Daemon> {
    return startDaemon({
      dir: this.dir,
      config: {
        device: { time_sync_file: join(this.#timesync, 'synchronized') },
        serial: { extra_ports: [this.pty.portName] },
        log: { commit_ms: 50 },
      },
      env: this.time.env,
    });
  }
  async note(daemon: Daemon, note: string): Promise<void> {
    this.logged.set(note, Date.now());
    await daemon.client.serial.logRaw({ dir: RX, note });
  }
  /** By note, what is to be seen of an entry: its clock, and whether its time is right. */
  async seen(daemon: Daemon): Promise<Record<string, readonly [clock: number, isRight: boolean]>> {
    const entries = await everythingAfter(daemon.client, 0);
    return Object.fromEntries(
      entries.flatMap(({ entry, clock }) => {
        const note = entry?.note ?? '';
        const at = this.logged.get(note);
        return at === undefined ? [] : [[note, [clock ?? 0, Math.abs(Number(entry?.timestamp) - at) < TOLERANCE_MS]]];
      }),
    );
  }
}

async function clockIs(daemon: Daemon, state: number): Promise<void> {
  await until(`clock state ${state}`, async () => (await daemon.client.line.getStatus({})).clock?.state === state);
}

test('marked before, corrected after: with a restart and a kill in between, live, stored, by time and for people', {
  skip,
}, async () => {
  const box = new Box();
  const first = await box.start();
  await clockIs(first, CLOCK_STATE_NOT_SET);
  await openPort(first.client, box.pty.portName);
  const standing = Promise.withResolvers<void>();
  const live = first.client.serial.streamLog({}, { onHeader: () => standing.resolve() })[Symbol.asyncIterator]();
  const liveNext = live.next();
  await standing.promise;
  await box.pty.write(Buffer.from('from the line'));
  const { value: fromLine } = await liveNext;
  assert.equal(fromLine?.note, 'clock not set');
  await box.note(first, 'first');
  await first.client.serial.logRaw({ dir: RX, note: 'given', timestamp: Long.fromNumber(42, true) });
  assert.deepEqual(await box.seen(first), { first: [ENTRY_CLOCK_NOT_SET, false] });
  assert.match((await cli(first, 'log', '--text')).stdout, /\d\?RX from the line\n/);
  assert.match((await cli(first, 'status')).stdout, /^Clock +NOT SET/m);
  await first.kill();

  const second = await box.start();
  await box.note(second, 'second');
  // Time sync steps the clock, and says so a moment later.
  box.time.set('+0');
  await box.note(second, 'stepped');
  box.sync();
  await clockIs(second, CLOCK_STATE_SET);
  await box.note(second, 'after');
  const all = {
    first: [ENTRY_CLOCK_CORRECTED, true],
    second: [ENTRY_CLOCK_CORRECTED, true],
    stepped: [ENTRY_CLOCK_KNOWN, true],
    after: [ENTRY_CLOCK_KNOWN, true],
  };
  assert.deepEqual(await box.seen(second), all);
  const { correctedByMs } = (await second.client.line.getStatus({})).clock ?? {};
  assert.ok(Number(correctedByMs) > 7.9 * YEAR_MS, `corrected by ${String(correctedByMs)} ms`);
  await second.kill();

  const third = await box.start();
  assert.deepEqual(await box.seen(third), all);
  const entries = await everythingAfter(third.client, 0);
  const given = entries.find(({ entry }) => entry?.note === 'given');
  assert.deepEqual([given?.clock, Number(given?.entry?.timestamp)], [ENTRY_CLOCK_UNSPECIFIED, 42]);
  const firstMs = box.logged.get('first') ?? 0;
  const recent = await cli(third, 'log', '--since', new Date(firstMs - TOLERANCE_MS).toISOString(), '--json');
  assert.match(recent.stdout, /"clock":"corrected","uncorrectedTimestampMs":\d+,.*"note":"first"/);
  assert.doesNotMatch(recent.stdout, /"given"/);
  for await (const { note } of third.client.serial.streamLog({ fromStart: true })) {
    assert.match(note, /^clock corrected by \+\d{4} d( \d+ h)?$/);
    break;
  }
  assert.equal(await third.stop(), 0);
});
