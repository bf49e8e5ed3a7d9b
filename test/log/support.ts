/** Real logs in real directories for the tests of the log room. */
import type { TestContext } from 'node:test';
import type { LogEntry, LogGap, NewEntry } from '../../src/line/log/entry.ts';
import type { LogRun, ReadRequest } from '../../src/line/log/log-api.ts';
import { openSerialLog, type SerialLog, type SerialLogOptions } from '../../src/line/log/serial-log.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';

export const MiB = 1024 * 1024;

export function optionsFor(dir: string, changes: Partial<SerialLogOptions> = {}): SerialLogOptions {
  return {
    dir,
    maxBytes: 1024 * MiB,
    maxAgeDays: 30,
    commitMs: 20,
    queueBytes: 8 * MiB,
    tailBytes: MiB,
    clock: systemClock,
    logger: silentLogger,
    ...changes,
  };
}

/** Closed at the end of the test. */
export async function openLog(
  t: TestContext,
  dir: string,
  changes: Partial<SerialLogOptions> = {},
): Promise<SerialLog> {
  const log = await openSerialLog(optionsFor(dir, changes));
  t.after(() => log.close());
  await until(
    'the log is open, or has failed to',
    async () => (await log.status()).error !== 'the log is being opened',
  );
  return log;
}

export function newEntry(text: string, changes: Partial<NewEntry> = {}): NewEntry {
  return { dir: 1, timestampMs: 1_700_000_000_000, data: Buffer.from(text), note: '', ...changes };
}

export const everything: ReadRequest = { after: 0, follow: false };

export interface Collected {
  readonly entries: LogEntry[];
  readonly gaps: LogGap[];
}

/** Reads to the end of a request that has one. */
export async function readAll(log: SerialLog, request: Partial<ReadRequest> = {}): Promise<Collected> {
  const collected: Collected = { entries: [], gaps: [] };
  for await (const run of log.read({ ...everything, ...request }, new AbortController().signal)) {
    collected.entries.push(...run.entries);
    collected.gaps.push(...run.gaps);
  }
  return collected;
}

export function iteratorOf(
  log: SerialLog,
  request: Partial<ReadRequest>,
  signal: AbortSignal = new AbortController().signal,
): AsyncIterator<LogRun> {
  return log.read({ ...everything, ...request }, signal)[Symbol.asyncIterator]();
}

/** The next entries of a reader, as strings. */
export async function nextTexts(reader: AsyncIterator<LogRun>): Promise<string[]> {
  return textsOf((await reader.next()).value?.entries ?? []);
}

export function idsOf(entries: readonly LogEntry[]): number[] {
  return entries.map(({ id }) => id);
}

export function textsOf(entries: readonly LogEntry[]): string[] {
  return entries.map(({ data }) => Buffer.from(data).toString());
}
