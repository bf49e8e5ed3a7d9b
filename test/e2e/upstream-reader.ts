/** What an independent consumer (upstream_consumer.py) finds of the serial log on a topic, and whether it is all of it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { lineside } from '../../src/shared/proto/services.ts';
import type { Client } from './daemon.ts';
import { consume, stubsDir } from './python.ts';

const READ_LIMIT_MS = 60_000;

export interface UpstreamEntry {
  readonly id: number;
  readonly note: string;
  /** The LogEntry as it is on the wire, base64. */
  readonly raw: string;
}

export interface UpstreamBatch {
  readonly logId: string;
  readonly bootId: string;
  readonly afterId: number;
  readonly throughId: number;
  readonly entries: readonly UpstreamEntry[];
  readonly gaps: readonly {
    readonly firstId: number;
    readonly lastId: number;
    readonly cause: string;
    readonly entries: number;
  }[];
  readonly corrections: readonly { readonly firstId: number; readonly lastId: number; readonly correctionMs: number }[];
}

/** Every batch that is on the topic now, each as the contract wants it. */
export async function readUpstream(
  bootstrap: string,
  topic: string,
  deviceId: string,
): Promise<readonly UpstreamBatch[]> {
  const script = join(import.meta.dirname, 'upstream_consumer.py');
  const { lines, end } = await consume([script, stubsDir(), bootstrap, topic, deviceId], '', READ_LIMIT_MS);
  assert.deepEqual(end, []);
  return lines as readonly UpstreamBatch[];
}

/** Of one log: nothing is missing between two batches, first occurrences come in the order of the log, and what comes twice is the same. */
export function shippedOf(batches: readonly UpstreamBatch[], logId: string) {
  const seen = new Map<number, string>();
  /** First occurrences, in the order in which they came. */
  const entries: UpstreamEntry[] = [];
  const gaps = new Map<number, UpstreamBatch['gaps'][number]>();
  let through: number | undefined;
  /** Entries that came more than once. */
  let duplicates = 0;
  for (const batch of batches.filter((one) => one.logId === logId)) {
    assert.ok(through === undefined || batch.afterId <= through, `nothing covers ${through} to ${batch.afterId}`);
    through = Math.max(through ?? 0, batch.throughId);
    for (const entry of batch.entries) {
      const before = seen.get(entry.id);
      if (before === undefined) {
        assert.ok(entry.id > (entries.at(-1)?.id ?? 0), `${entry.id} came late`);
        entries.push(entry);
        seen.set(entry.id, entry.raw);
      } else {
        duplicates += 1;
        assert.equal(entry.raw, before, `${entry.id} came again, and differs`);
      }
    }
    for (const gap of batch.gaps) gaps.set(gap.firstId, gap);
  }
  return { entries, gaps: [...gaps.values()], duplicates };
}

/** The stored log as the box itself has it: id and the entry as it is on the wire. */
export async function logOf({
  line,
}: Client): Promise<{ readonly logId: string; readonly entries: Map<number, string> }> {
  const entries = new Map<number, string>();
  let logId = '';
  for await (const batch of line.readLog({ storedOnly: false })) {
    logId ||= batch.logId;
    for (const entry of batch.entries) {
      entries.set(Number(entry.id), Buffer.from(lineside.v1.LogEntry.encode(entry).finish()).toString('base64'));
    }
  }
  return { logId, entries };
}
