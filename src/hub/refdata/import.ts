/**
 * Bundle imports. A small bundle is one change of this thread, like a record. A larger one is transferred to a worker, which
 * writes while the write slot is held for it. One at a time: each may have a worker and up to maxImportBytes of memory.
 */
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { asLinesideError, type ErrorCode, errorCatalogue, LinesideError, messageOf } from '../../shared/base/errors.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { besideModule, WorkerError, WorkerHost } from '../../shared/storage/worker-host.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { reasonFaults } from '../outbox/event.ts';
import { type ImportCalls, ImportRun, importAudit } from './bundle.ts';
import type { Actor, BundleFormat, ImportResult } from './face.ts';
import { dataChecks } from './json-schema.ts';
import { refuseFaults } from './rules.ts';

export interface ImportOptions {
  readonly store: ChangeStore;
  /** Of refdata.db. */
  readonly path: string;
  /** outbox.max_bytes */
  readonly maxBytes: number;
  readonly maxImportBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Imports that may wait for the one before; their bodies stay unread in their sockets. */
const waitLimit = 4;
/** Starting a worker takes 58 to 115 ms. So many bytes hold at most about 350 items, which take 35 ms on a small machine. */
const smallBytes = 16 * 1024;
/** Checks against a slow schema take longer: then a worker imports the bundle, and other requests are served. */
const smallLimitMs = 100;
/** 100,000 items take 20 s on a slow card. All other changes wait meanwhile. */
const runLimitMs = 120_000;
/** A worker that hangs in the disk is abandoned after this. */
const endLimitMs = 5_000;
/** Two attempts to end the worker, and one more wait. */
const heldLimitMs = runLimitMs + 4 * endLimitMs;

interface Wanted {
  readonly actor: Actor;
  readonly format: BundleFormat;
  readonly changeReason: string;
}

export class Imports {
  readonly #o: ImportOptions;
  readonly #lastImport;
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #worker: WorkerHost<ImportCalls> | undefined;
  /** Monotonic: when it got the write slot. */
  #heldSinceMs: number | undefined;
  readonly #closing = Promise.withResolvers<never>();
  #closed = false;

  constructor(options: ImportOptions) {
    this.#o = options;
    // Awaited only while a body is read.
    this.#closing.promise.catch(() => undefined);
    this.#lastImport = options.store.connection.prepare<[string], { id: number; at: Instant; details: string }>(
      'SELECT id, at, details FROM audit WHERE action = ? ORDER BY id DESC LIMIT 1',
    );
  }

  /**
   * One transaction; every fault in `reasons`, each with its line (or item) number. `body` is read as it arrives, and aborted
   * when it is too large (TOO_LARGE). One import at a time; a few wait.
   */
  async run(
    actor: Actor,
    format: BundleFormat,
    changeReason: string,
    body: AsyncIterable<Uint8Array>,
  ): Promise<ImportResult> {
    refuseFaults('the bundle cannot be imported', reasonFaults(changeReason));
    if (this.#waiting > waitLimit) {
      throw new LinesideError('TOO_MANY', `${waitLimit} imports wait already`, { hint: 'Try again in a minute.' });
    }
    const before = this.#turn;
    this.#waiting++;
    const mine = before.then(() => this.#import({ actor, format, changeReason }, body));
    this.#turn = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      this.#waiting--;
    }
  }

  /**
   * Rejects if an import keeps the write slot for longer than its limits allow, or if its worker has ended. A worker that writes
   * reads no message.
   */
  async assertAlive(): Promise<void> {
    if (this.#heldSinceMs === undefined) return this.#worker?.answers();
    const heldMs = this.#o.clock.monoMs() - this.#heldSinceMs;
    if (heldMs > heldLimitMs) throw new Error(`it has kept all changes waiting for ${Math.round(heldMs / 1_000)} s`);
  }

  /** Aborts the running import: nothing of it is written, unless it was committed already. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#closing.reject(closing());
    await this.#worker?.terminate(endLimitMs);
    await this.#turn;
  }

  async #import(wanted: Wanted, body: AsyncIterable<Uint8Array>): Promise<ImportResult> {
    if (this.#closed) throw closing();
    const { full } = this.#o.store.health();
    if (full !== '') {
      throw new LinesideError('STORAGE_FULL', `no room for changes: ${full}`, {
        hint: 'Let the outbox drain, free space on the disk, or raise outbox.max_bytes; nothing was imported.',
      });
    }
    const chunks = body[Symbol.asyncIterator]();
    const { head, ended } = await this.#head(chunks);
    const here = ended ? await this.#importOnMainThread(wanted, head) : undefined;
    return here ?? this.#withWorker((worker) => this.#importInWorker(worker, wanted, joined(head, chunks)));
  }

  /** Somewhat more than a small bundle, or the whole body. */
  async #head(
    chunks: AsyncIterator<Uint8Array>,
  ): Promise<{ readonly head: readonly Uint8Array[]; readonly ended: boolean }> {
    const head: Uint8Array[] = [];
    for (let bytes = 0; bytes <= Math.min(smallBytes, this.#o.maxImportBytes); ) {
      // A body that stalls must not delay the end of the service.
      const next = await Promise.race([chunks.next(), this.#closing.promise]);
      if (next.done === true) return { head, ended: true };
      head.push(next.value);
      bytes += next.value.length;
    }
    return { head, ended: false };
  }

  /** undefined: it took too long, and nothing was written. */
  async #importOnMainThread(
    { actor, format, changeReason }: Wanted,
    parts: readonly Uint8Array[],
  ): Promise<ImportResult | undefined> {
    const { store, clock } = this.#o;
    const tooLong = new LinesideError('INTERNAL', 'the import takes too long for the main thread');
    try {
      return await store.commit({ changedBy: actor.name, changeReason }, (change) => {
        const untilMs = clock.monoMs() + smallLimitMs;
        const throwIfTooLong = (): void => {
          if (clock.monoMs() > untilMs) throw tooLong;
        };
        return new ImportRun(change, actor, dataChecks(change.connection), throwIfTooLong).run(
          format,
          Buffer.concat(parts),
        );
      });
    } catch (error) {
      if (error === tooLong) return undefined;
      throw error;
    }
  }

  async #withWorker<T>(use: (worker: WorkerHost<ImportCalls>) => Promise<T>): Promise<T> {
    const worker = new WorkerHost<ImportCalls>(besideModule('import-worker', import.meta.url));
    this.#worker = worker;
    try {
      return await use(worker);
    } finally {
      this.#worker = undefined;
      await worker.terminate(endLimitMs);
    }
  }

  async #importInWorker(
    worker: WorkerHost<ImportCalls>,
    { actor, format, changeReason }: Wanted,
    body: AsyncIterable<Uint8Array>,
  ): Promise<ImportResult> {
    const { store, path, maxBytes, clock } = this.#o;
    await this.#received(worker, body);
    const author = { changedBy: actor.name, changeReason };
    return store.hold(async () => {
      this.#heldSinceMs = clock.monoMs();
      const last = this.#lastImport.get(importAudit)?.id ?? 0;
      const answered = worker.call('run', { path, maxBytes, actor, author, format, wallMs: clock.wallMs() });
      try {
        if (await endsWithin(clock, runLimitMs, answered)) return await answered;
        await worker.terminate(endLimitMs);
        throw new LinesideError('TOO_LARGE', `nothing was imported: it took longer than ${runLimitMs / 1000} s`, {
          hint: 'Cut the bundle in two.',
        });
      } catch (error) {
        return await this.#afterDeath(worker, error, last);
      } finally {
        this.#heldSinceMs = undefined;
      }
    });
  }

  /** The audit shows whether the worker died after its commit. */
  async #afterDeath(worker: WorkerHost<ImportCalls>, error: unknown, last: number): Promise<ImportResult> {
    if (worker.alive) throw refusalOf(error);
    if (!(await endsWithin(this.#o.clock, endLimitMs, worker.exited))) {
      throw new LinesideError(
        'STORAGE_FAILED',
        'the import hangs in the disk: whether it will be written is not known',
        {
          cause: error,
          hint: `See dmesg; the audit has "${importAudit}" when it was written.`,
        },
      );
    }
    const newest = this.#lastImport.get(importAudit);
    if (newest === undefined || newest.id <= last) throw error instanceof LinesideError ? error : this.#died(error);
    const { created, updated, closed, unchanged } = JSON.parse(newest.details) as Omit<ImportResult, 'txTime'>;
    return { txTime: newest.at, created, updated, closed, unchanged };
  }

  /** A body that stalls outlives its worker, and is not awaited. */
  async #received(worker: WorkerHost<ImportCalls>, body: AsyncIterable<Uint8Array>): Promise<void> {
    const ended = worker.exited.then(() => Promise.reject(new Error('the worker has ended')));
    try {
      await Promise.race([this.#handOver(worker, body), ended]);
    } catch (error) {
      throw worker.alive ? error : this.#died(error);
    }
  }

  async #handOver(worker: WorkerHost<ImportCalls>, body: AsyncIterable<Uint8Array>): Promise<void> {
    const { maxImportBytes: maxBytes } = this.#o;
    let total = 0;
    for await (const chunk of body) {
      total += chunk.length;
      if (total > maxBytes)
        throw new LinesideError('TOO_LARGE', `the bundle has more than ${maxBytes} bytes`, {
          hint: 'Cut it in two, or raise http.max_import_bytes.',
        });
      const { buffer: part } = new Uint8Array(chunk);
      // Awaited: the body is read no faster than the worker takes it.
      await worker.call('append', { part, maxBytes }, [part]);
    }
  }

  #died(error: unknown): LinesideError {
    if (this.#closed) return closing();
    this.#o.logger.error('the import worker died', { error: messageOf(error) });
    return new LinesideError('INTERNAL', 'nothing was imported: the thread that imports has died', {
      cause: error,
      hint: 'Import the bundle again; if it dies again, cut the bundle in two and see the log of the service.',
    });
  }
}

async function* joined(head: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* head;
  yield* { [Symbol.asyncIterator]: () => rest };
}

/** A LinesideError that was thrown in the worker. */
function refusalOf(error: unknown): LinesideError {
  if (!(error instanceof WorkerError) || !Object.hasOwn(errorCatalogue, error.code)) return asLinesideError(error);
  const { code, message, hint, reasons } = error;
  return new LinesideError(code as ErrorCode, message, { hint, reasons });
}

function closing(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'nothing was imported: the service is being stopped');
}
