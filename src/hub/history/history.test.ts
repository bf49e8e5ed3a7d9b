import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { fill, mountSmall } from '../../shared/base/small-disk.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import type { ClockState } from '../../shared/host/clock-sync.ts';
import { HistoryBox, HOUR_MS, MINUTE_MS } from './history.fixture.ts';
import { HistoryFile, type Hour, MAX_STORED_MINUTES } from './history-file.ts';
import { columns, noMinutes, packMinutes } from './minutes.ts';
import { placements } from './series.ts';

type Settings = Partial<ConstructorParameters<typeof HistoryBox>[0]>;

function boxOf(t: TestContext, settings: Settings = {}): HistoryBox {
  const box = new HistoryBox({ dir: temporaryDirectory(t), ...settings });
  t.after(() => box.history.stop());
  return box;
}

const sum = (values: readonly (number | null)[]): number => values.reduce<number>((all, one) => all + (one ?? 0), 0);

/** The most bytes that an hour may have: numbers that no packing makes smaller. */
function fullHours(boot: string, count: number): Hour[] {
  const anyColumn = (): number[] => Array.from(randomBytes(60), (byte) => 1 + byte * 9_000);
  const all = Array<number>(60).fill(60);
  const body = (): Buffer =>
    packMinutes({
      ...noMinutes(),
      upS: all,
      lineS: all,
      ...Object.fromEntries(columns.slice(2).map((name) => [name, anyColumn()])),
    });
  const hour = { boot, minutes: 60, offsetMs: 0, clock: 'synced' } as const;
  return Array.from({ length: count }, (_, at) => ({ ...hour, firstMinute: at * 60, body: body() }));
}

function fileIn(t: TestContext, dir: string): HistoryFile {
  const file = new HistoryFile(dir, silentLogger);
  t.after(() => file.close());
  return file;
}

test('each minute has what came in it, the running one too, and what is not known is null', async (t) => {
  const box = boxOf(t);
  box.heat = 48.7;
  box.cardBytes = 1_000;
  await box.minutes(1);
  box.onSample = () => box.count('rxBytes', 10);
  await box.minutes(1);
  box.onSample = () => undefined;
  box.count('losses', 2);
  box.cardBytes = 5_096;
  box.heat = 50.1;
  await box.minutes(1);
  box.line = undefined;
  await box.minutes(1);
  box.heat = null;
  await box.minutes(0.5);
  const answer = await box.read(5);
  const { rxBytes, reconnects, upS, lineS, portOpenS, temperatureMaxCelsius, cardWrittenBytes } = answer;
  // The first step ends before the box was started.
  assert.deepEqual(rxBytes, [null, 0, 60, 0, null, null]);
  assert.deepEqual(reconnects, [null, 0, 0, 2, null, null]);
  assert.deepEqual(
    [upS, lineS],
    [
      [0, 60, 60, 60, 60, 30],
      [null, 60, 60, 60, 0, 0],
    ],
  );
  assert.deepEqual(portOpenS, [null, 60, 60, 60, null, null]);
  assert.deepEqual(temperatureMaxCelsius, [null, 48.7, 48.7, 50.1, 50.1, null]);
  assert.deepEqual(cardWrittenBytes, [null, 0, 0, 4_096, 0, 0]);
  assert.deepEqual([answer.gaps, answer.fault, answer.isClockVerified], [[], '', true]);
});

test('a step has the sum of its minutes, and the least, mean and greatest temperature', async (t) => {
  const box = boxOf(t);
  box.onSample = () => box.count('txBytes', 1);
  for (const heat of [40, 50, 60]) {
    box.heat = heat;
    await box.minutes(20);
  }
  const { txBytes, temperatureMinCelsius, temperatureMeanCelsius, temperatureMaxCelsius } = await box.read(
    60,
    2 * HOUR_MS,
  );
  assert.equal(sum(txBytes), 6 * 60);
  assert.deepEqual([temperatureMinCelsius.at(-1), temperatureMaxCelsius.at(-1)], [40, 60]);
  assert.ok(Math.abs((temperatureMeanCelsius.at(-1) ?? 0) - 50) < 0.5, String(temperatureMeanCelsius));
});

test('a day of the most traffic is at most 300 KB to the card, with 30 days stored and the oldest removed', (t) => {
  const dir = temporaryDirectory(t);
  const file = fileIn(t, dir);
  file.write(fullHours('first', MAX_STORED_MINUTES / 60));
  file.close();
  // The first commits after a start, which make the write-ahead log, are counted too.
  const before = writtenBytes();
  for (const hour of fullHours('second', 24)) file.write([hour]);
  const written = writtenBytes() - before;
  t.diagnostic(`${Math.round(written / 1_000)} KB`);
  if (isOnDisk(dir)) assert.ok(written > 24 * 512, 'nothing was counted');
  assert.ok(written <= 300_000, `${written} bytes`);
});

/** Bytes that this process caused to be sent to the storage layer: whole pages, write-ahead log and all. */
function writtenBytes(): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

/** tmpfs is not counted. */
function isOnDisk(dir: string): boolean {
  return !spawnSync('stat', ['-f', '-c', '%T', dir], { encoding: 'utf8' }).stdout.includes('tmpfs');
}

test('nothing is written while nothing changes; such hours are stored with the next one that has something', async (t) => {
  const dir = temporaryDirectory(t);
  const box = boxOf(t, { dir });
  box.heat = 40;
  await box.minutes(61);
  assert.equal(box.history.health().commits, 1, 'the hour of the start');
  box.heat = 43;
  await box.minutes(5 * 60);
  assert.deepEqual([box.history.health().commits, box.history.health().unstoredMinutes], [1, 5 * 60]);
  for (const change of [() => box.count('rxBytes', 1), () => (box.heat = 50), () => (box.line = undefined)]) {
    const { commits } = box.history.health();
    change();
    await box.minutes(60);
    assert.equal(box.history.health().commits, commits + 1, String(change));
  }
  assert.equal(box.history.health().unstoredMinutes, 0);
  await box.history.stop();
  const again = boxOf(t, { dir, boot: 'next', clock: box.clock });
  assert.equal(sum((await again.read(10 * 60)).upS), 60 * (61 + 8 * 60), 'all minutes are there');
});

test('a hub that is killed loses the running hour, one that is stopped nothing', async (t) => {
  const dir = temporaryDirectory(t);
  const program = join(import.meta.dirname, 'history.fixture.ts');
  assert.equal(spawnSync(process.execPath, [program, dir]).signal, 'SIGKILL');
  const clock = new FakeClock();
  clock.advance(4 * HOUR_MS);
  const box = boxOf(t, { dir, boot: 'next', clock });
  const killed = await box.read(5 * 60);
  assert.equal(sum(killed.upS), 3 * 3_600);
  assert.deepEqual(killed.gaps, []);
  box.onSample = () => box.count('rxBytes', 10);
  await box.minutes(10);
  await box.history.stop();
  clock.advance(HOUR_MS);
  const stopped = boxOf(t, { dir, boot: 'third', clock });
  await stopped.minutes(10);
  assert.equal(sum((await stopped.read(80)).rxBytes), 600);
  // The hub was away from 3 h to 4 h of the box, and for an hour after that.
  const { gaps } = await stopped.read(6 * 60);
  const lengths = gaps.map(({ fromMs, untilMs, reason }) => [(untilMs - fromMs) / MINUTE_MS, reason]);
  assert.deepEqual(lengths, [
    [60, 'boxOff'],
    [60, 'boxOff'],
  ]);
});

test('a hub that is started again within the hour continues its row; the time between is a gap', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const first = boxOf(t, { dir, clock });
  await first.minutes(10);
  await first.history.stop();
  clock.advance(10 * MINUTE_MS);
  const box = boxOf(t, { dir, clock, bootMinute: 20 });
  await box.minutes(45);
  const { upS, gaps } = await box.read(70);
  assert.equal(sum(upS), 55 * 60);
  assert.deepEqual(
    gaps.map(({ reason }) => reason),
    ['serviceStopped'],
  );
  await box.history.stop();
  const file = fileIn(t, dir);
  assert.deepEqual(
    file.heads().map(({ firstMinute, minutes }) => [firstMinute, minutes]),
    [
      [0, 60],
      [60, 5],
    ],
  );
});

test('a clock that is set later places the minutes before it right, also those of a boot that has ended', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const rightMs = clock.wallMs();
  // No battery: the box believes that it is a year earlier.
  clock.stepWall(-365 * 24 * HOUR_MS);
  const box = boxOf(t, { dir, clock });
  box.clockState = 'unsynced';
  box.onSample = () => box.count('rxBytes', 10);
  await box.minutes(90);
  assert.equal((await box.read(100)).isClockVerified, false);
  clock.stepWall(365 * 24 * HOUR_MS);
  box.clockState = 'synced';
  const placed = (one: HistoryBox) =>
    one.history.read({ sinceMs: rightMs, untilMs: rightMs + 90 * MINUTE_MS, stepMs: 90 * MINUTE_MS });
  const known = await placed(box);
  assert.deepEqual([known.isClockVerified, sum(known.rxBytes)], [true, 5_400]);
  await box.history.stop();
  const next = boxOf(t, { dir, clock, boot: 'next' });
  assert.deepEqual(sum((await placed(next)).rxBytes), 5_400);
  assert.equal((await next.read(100)).firstMs, rightMs);
});

test('the hours of a boot are placed by the last time that its clock was right, otherwise by the last time', () => {
  const head = (boot: string, offsetMs: number, clock: ClockState) =>
    ({ boot, firstMinute: 0, minutes: 60, offsetMs, clock }) as const;
  const found = placements([
    head('set', 1, 'unsynced'),
    head('set', 2, 'synced'),
    head('set', 3, 'unsynced'),
    head('never', 4, 'unsynced'),
    head('never', 5, 'unsynced'),
  ]);
  assert.deepEqual(Object.fromEntries(found), {
    set: { offsetMs: 2, clock: 'synced' },
    never: { offsetMs: 5, clock: 'unsynced' },
  });
});

test('minutes of two boots at the same time of the clock, which was set back between, are added', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const first = boxOf(t, { dir, clock });
  first.onSample = () => first.count('rxBytes', 10);
  await first.minutes(10);
  await first.history.stop();
  clock.stepWall(-10 * MINUTE_MS);
  const second = boxOf(t, { dir, clock, boot: 'second' });
  second.onSample = () => second.count('rxBytes', 1);
  await second.minutes(10);
  const { upS, lineS, rxBytes, gaps } = await second.read(10);
  assert.deepEqual([Math.max(...upS), lineS[5], rxBytes[5]], [120, 120, 66]);
  assert.deepEqual([sum(upS), gaps], [20 * 60, []]);
});

test('an answer for 30 days lets the hub do its other work meanwhile', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const hours = MAX_STORED_MINUTES / 60;
  const offsetMs = clock.wallMs() - hours * HOUR_MS;
  const file = fileIn(t, dir);
  file.write(fullHours('long', hours).map((hour) => ({ ...hour, offsetMs })));
  file.close();
  const box = boxOf(t, { dir, clock, boot: 'long', bootMinute: MAX_STORED_MINUTES });
  let turns = 0;
  let isRead = false;
  const count = (): void => {
    turns += 1;
    if (!isRead) setImmediate(count);
  };
  setImmediate(count);
  const beganMs = performance.now();
  const answer = await box.read(MAX_STORED_MINUTES, 2 * HOUR_MS);
  isRead = true;
  t.diagnostic(`${Math.round(performance.now() - beganMs)} ms in ${turns} parts`);
  assert.equal(sum(answer.upS), MAX_STORED_MINUTES * 60);
  assert.ok(turns >= 24, `${turns}`);
});

test('what is older than 30 days of uptime is removed', async (t) => {
  const dir = temporaryDirectory(t);
  const file = fileIn(t, dir);
  file.write(fullHours('long', MAX_STORED_MINUTES / 60 + 100));
  assert.equal(file.heads().length, MAX_STORED_MINUTES / 60);
  assert.equal(file.heads()[0]?.firstMinute, 100 * 60);
});

test('while the disk is full the hours are kept in memory and it is said; later they are stored', async (t) => {
  const dir = join(tmpdir(), `lineside-history-${process.pid}`);
  if (!mountSmall(t, dir, 'size=1m')) return;
  const { logger, lines } = recordingLogger();
  const box = boxOf(t, { dir, logger, maxWaitingHours: 4 });
  box.onSample = () => box.count('rxBytes', 10);
  await box.minutes(61);
  const full: string[] = [];
  // Each write that failed gave the place of its write-ahead log back.
  while (box.history.health().lostHours < 2 && full.length < 20) {
    full.push(join(dir, `full-${full.length}`));
    fill(full.at(-1) ?? '');
    await box.minutes(60);
  }
  const { fault, unstoredMinutes, lostHours } = box.history.health();
  assert.match(fault, /full/);
  assert.deepEqual([lostHours, unstoredMinutes], [2, 4 * 60]);
  assert.equal((await box.read(60)).fault, fault);
  for (const file of full) rmSync(file);
  await box.minutes(60);
  assert.deepEqual([box.history.health().fault, box.history.health().unstoredMinutes], ['', 0]);
  assert.deepEqual(
    lines.map((line) => line.replace(/ error=.*/, '')),
    ['warn history is not stored', 'info history is stored again'],
  );
});

test('a damaged file, and one that is replaced while the hub runs, are followed by a new one', async (t) => {
  const dir = temporaryDirectory(t);
  const file = fileIn(t, dir);
  file.write(fullHours('before', 48));
  file.close();
  const path = join(dir, 'history.db');
  const bytes = readFileSync(path);
  bytes.fill(0x55, 1_024, 20_000);
  writeFileSync(path, bytes);
  const { logger, lines } = recordingLogger();
  const box = boxOf(t, { dir, logger });
  await box.minutes(61);
  assert.match(
    lines.join('\n'),
    /error history.db was damaged: it was set aside and an empty one begun file=.*damaged-1/,
  );
  assert.ok(readdirSync(dir).includes('history.db.damaged-1'));
  rmSync(path);
  box.count('rxBytes', 7);
  await box.minutes(60);
  assert.deepEqual([box.history.health().fault, box.history.health().commits], ['', 2]);
  await box.history.stop();
  const next = boxOf(t, { dir, boot: 'next', clock: box.clock });
  assert.equal(sum((await next.read(120)).rxBytes), 7);
});
