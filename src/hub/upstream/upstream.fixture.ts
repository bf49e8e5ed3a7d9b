/** A line with a log, and another side, for tests of what is between them. */
import Long from 'long';
import { LinesideError } from '../../shared/base/errors.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { Now } from './corrections.ts';
import type { LineLog, LineState, ReadResult } from './line-log.ts';
import type { Packed } from './packer.ts';
import type { Positions, Saved } from './persisted-state.ts';
import type { Run } from './runs.ts';
import type { SendOutcome, Transport, TransportState } from './transport.ts';

const u64 = (value: number): Long => Long.fromNumber(value, true);
/** Entries of a read, as the line has a limit. */
const READ_ENTRIES = 50;

/** An entry as a run of its own. */
export function runOf(entry: lineside.v1.LogEntry, bootId: string): Run {
  const records = lineside.v1.UpstreamBatch.encode({ entries: [entry] }).finish();
  const isUnset = entry.clock === lineside.v1.EntryClock.ENTRY_CLOCK_NOT_SET;
  const lineEnds = [entry.entry?.rawData.length ?? 0];
  return { firstId: Number(entry.id), bootId, isUnset, records, ends: [records.length], lineEnds };
}

/** Its log holds the ids from `firstId` to `lastId`. */
export class FakeLineLog implements LineLog {
  logId = 'log';
  firstId = 1;
  lastId = 0;
  clockSet = true;
  /** What entries stamped while the clock was not set turned out to be off by; they are all entries up to `unsetTo`. */
  unsetTo = 0;
  correctionMs = 60_000;
  isUnreachable = false;
  /** Has the last word on each entry that is read. */
  change: (entry: lineside.v1.LogEntry) => void = () => undefined;

  async now(): Promise<LineState> {
    this.#answer();
    const { logId, firstId, lastId, clockSet } = this;
    const first = lastId === 0 ? 0 : firstId;
    return { logId, beginId: first, firstId: first, lastId, headId: lastId, clockSet };
  }

  async read(logId: string, afterId: number, enoughBytes: number): Promise<ReadResult> {
    this.#answer();
    if (logId !== this.logId) return { kind: 'replaced' };
    if (afterId < this.firstId - 1) return { kind: 'overtaken' };
    const count = Math.max(0, Math.min(READ_ENTRIES, Math.ceil(enoughBytes / 100), this.lastId - afterId));
    const runs = Array.from({ length: count }, (_, n) => runOf(this.#entry(afterId + 1 + n), 'boot'));
    return { kind: 'read', batches: [{ runs, gaps: [], nextAfterId: afterId + count }] };
  }

  async timeAt(_logId: string, id: number): Promise<Now> {
    for (let at = id; at <= this.lastId; at++) {
      const { clock, entry, uncorrectedTimestampMs } = this.#entry(at);
      if (clock === lineside.v1.EntryClock.ENTRY_CLOCK_NOT_SET) return undefined;
      if (clock === lineside.v1.EntryClock.ENTRY_CLOCK_KNOWN) return { correctionMs: 0 };
      if (clock === lineside.v1.EntryClock.ENTRY_CLOCK_CORRECTED)
        return { correctionMs: Number(entry?.timestamp) - Number(uncorrectedTimestampMs) };
    }
    return undefined;
  }

  end(): void {}

  #entry(id: number): lineside.v1.LogEntry {
    const { ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } = lineside.v1.EntryClock;
    const unset = id <= this.unsetTo;
    const clock = !unset ? ENTRY_CLOCK_UNSPECIFIED : this.clockSet ? ENTRY_CLOCK_CORRECTED : ENTRY_CLOCK_NOT_SET;
    const timestamp = u64(clock === ENTRY_CLOCK_CORRECTED ? id + this.correctionMs : id);
    const entry = { rawData: new Uint8Array(100), note: '', timestamp };
    const read = lineside.v1.LogEntry.create({
      id: u64(id),
      entry,
      clock,
      uncorrectedTimestampMs: u64(unset ? id : 0),
    });
    this.change(read);
    return read;
  }

  #answer(): void {
    if (this.isUnreachable) throw new LinesideError('NOT_READY', 'the line is unreachable');
  }
}

export class FakeTransport implements Transport {
  readonly name: Transport['name'];
  maxBytes = 1_000_000;
  connectBytes = 1_000;
  /** Its report for each log; undefined: it reports nothing. */
  at: number | undefined;
  /** What it does with the next batches; afterwards it stores them. */
  outcomes: (SendOutcome | 'hang')[] = [];
  /** Batches that it takes at a time. */
  depth = 1;
  inFlight = 0;
  mostInFlight = 0;
  /** How long it takes to store a batch. */
  answer: () => Promise<unknown> = () => Promise.resolve();
  unreachable = '';
  /** What send() throws, which it must not. */
  fault = '';
  asked = 0;
  sends = 0;
  rests = 0;
  readonly stored: lineside.v1.UpstreamBatch[] = [];
  #changed: () => void = () => {};

  constructor(name: Transport['name'] = 'kafka') {
    this.name = name;
  }

  async position(): Promise<number | undefined> {
    this.asked += 1;
    if (this.unreachable !== '') throw new LinesideError('NOT_READY', this.unreachable);
    return this.at;
  }

  async send(batch: Uint8Array, range: Pick<Packed, 'throughId'>, signal: AbortSignal): Promise<SendOutcome> {
    this.sends += 1;
    this.inFlight += 1;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    return this.#send(batch, range, signal).finally(() => {
      this.inFlight -= 1;
    });
  }

  async #send(batch: Uint8Array, range: Pick<Packed, 'throughId'>, signal: AbortSignal): Promise<SendOutcome> {
    if (this.fault !== '') throw new Error(this.fault);
    const outcome = this.outcomes.shift();
    if (outcome === 'hang') {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      return { kind: 'unreached', reason: 'abandoned' };
    }
    if (outcome !== undefined) return outcome;
    await this.answer();
    if (signal.aborted) return { kind: 'unreached', reason: 'abandoned' };
    this.stored.push(lineside.v1.UpstreamBatch.decode(batch));
    if (this.at !== undefined) this.at = range.throughId;
    return { kind: 'stored' };
  }

  hasRoom(): boolean {
    return this.inFlight < this.depth;
  }
  cost(batch: Uint8Array): number {
    return batch.length;
  }
  takeOverhead(): number {
    return 0;
  }
  rest(): void {
    this.rests += 1;
  }
  state(): TransportState {
    return { connected: this.unreachable === '', reason: this.unreachable };
  }
  start(changed: () => void): void {
    this.#changed = changed;
  }
  back(): void {
    this.unreachable = '';
    this.#changed();
  }
  async stop(): Promise<void> {}

  /** Of each gap that is stored: its log, cause, first and last id, entries, and whether its end is open. */
  get gaps(): [logId: string, cause: number, firstId: number, lastId: number, entries: number, openEnded: boolean][] {
    return this.stored.flatMap(({ logId, gaps }) =>
      gaps.map((gap) => [
        logId,
        gap.cause,
        Number(gap.firstId),
        Number(gap.lastId),
        Number(gap.entries),
        gap.openEnded,
      ]),
    );
  }

  get ids(): number[] {
    return this.stored.flatMap(({ entries }) => entries.map(({ id }) => Number(id)));
  }
}

/** In memory: real files take real time, of which a fake clock knows nothing. */
export class FakePositions implements Positions {
  saved: Saved | undefined;

  async load(): Promise<Saved | undefined> {
    return this.saved;
  }
  async save(saved: Saved): Promise<void> {
    this.saved = saved;
  }
  async close(): Promise<void> {}
}
