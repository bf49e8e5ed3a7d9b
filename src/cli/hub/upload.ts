/** A file on its way to the hub: its progress, its time limit, and what may be said of its effect when it breaks off. */
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { tooSlow } from '../connection/service.ts';
import { CliFailure } from '../failure.ts';
import { fileFailure, readable } from '../input.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { byteSize, spanText } from '../output/numbers.ts';
import { cut } from '../output/table.ts';
import type { Call } from '../shell.ts';

// How an upload comes along: a bar on a terminal, a line now and then elsewhere, nothing with --json.

/** Between two drawings of the bar. */
const drawMs = 100;
/** Between two lines where there is no terminal: a log file is not filled, and silence is not long. */
const lineMs = 5000;
/** While the service checks and stores. */
const waitingMs = 1000;
const barWidth = 24;

class UploadProgress {
  readonly #call: Call<object>;
  readonly #total: number | undefined;
  readonly #startedAt: number;
  #shownAt: number;
  #bytes = 0;
  #timer: { cancel(): void } | undefined;
  #drawn = false;
  #ended = false;

  /** `total`: in bytes; undefined where it is not known. */
  constructor(call: Call<object>, total: number | undefined) {
    this.#call = call;
    this.#total = total;
    this.#startedAt = call.io.clock.monoMs();
    // A bar is there at once, a line only when it takes its time.
    this.#shownAt = call.err.isTerminal ? this.#startedAt - drawMs : this.#startedAt;
  }

  async sent(bytes: number): Promise<void> {
    this.#bytes += bytes;
    const now = this.#call.io.clock.monoMs();
    if (now - this.#shownAt < (this.#call.err.isTerminal ? drawMs : lineMs)) return;
    this.#shownAt = now;
    await this.#show(`${this.#amount()}, ${this.#rate(now)}`);
  }

  /** All is sent. */
  async waiting(): Promise<void> {
    const now = this.#call.io.clock.monoMs();
    const took = spanText(Math.round(now - this.#startedAt));
    await this.#show(`sent ${byteSize(this.#bytes)} in ${took}, ${this.#rate(now)}; it is being stored`);
    if (this.#call.err.isTerminal && !this.#ended) this.#tick(now);
  }

  /** Clears the bar; nothing is shown afterwards. The answer may arrive before the upload is known to be complete. */
  async end(): Promise<void> {
    this.#ended = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#drawn) await this.#call.err.write('\r\x1b[K');
    this.#drawn = false;
  }

  #tick(since: number): void {
    const { clock } = this.#call.io;
    this.#timer = clock.timer(waitingMs, () => {
      this.#tick(since);
      const waited = spanText(Math.round(clock.monoMs() - since));
      const text = `sent ${byteSize(this.#bytes)}; it is being stored: ${waited}`;
      // A closed terminal is noticed at the next write.
      this.#show(text).catch(() => undefined);
    });
  }

  async #show(text: string): Promise<void> {
    const { err, json } = this.#call;
    if (json || this.#ended) return;
    if (!err.isTerminal) return err.write(`${text}\n`);
    this.#drawn = true;
    // One column is left: some terminals go to the next line when the last one is filled.
    await err.write(`\r${cut(text, err.width - 1)}\x1b[K`);
  }

  #amount(): string {
    const sent = `sent ${byteSize(this.#bytes)}`;
    if (this.#total === undefined) return sent;
    const part = Math.min(1, this.#bytes / this.#total);
    const full = Math.round(part * barWidth);
    const bar = this.#call.err.isTerminal ? `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}] ` : '';
    return `${bar}${sent} of ${byteSize(this.#total)} (${Math.floor(part * 100)} %)`;
  }

  #rate(now: number): string {
    const seconds = Math.max(1, now - this.#startedAt) / 1000;
    return `${byteSize(Math.round(this.#bytes / seconds))}/s`;
  }
}

/** What is sent, and what an error means for the box. */
export interface SentFile {
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A path, or - for standard input. */
  readonly file: string;
  /** "import" */
  readonly what: string;
  /** "Nothing was imported." */
  readonly undone: string;
  /** After the whole of it was sent: what may be said then. */
  readonly inDoubt: string;
}

/** Answers what the hub answered. --timeout is how long it may give no sign. */
export async function sendFile(call: Call<object>, sent: SentFile): Promise<JsonObject> {
  const hub = await call.hub();
  const source = await openSource(call, sent.file);
  const upload = new Upload(call, source, sent);
  try {
    const body = await upload.begin();
    const length: Record<string, string> = source.bytes === undefined ? {} : { 'content-length': String(source.bytes) };
    const { method, path, headers } = sent;
    const answer = await hub.upload({ method, path, headers: { ...headers, ...length }, body }, upload.ended);
    await upload.finish();
    return answer;
  } catch (error) {
    throw await upload.failure(error);
  } finally {
    source.stream.destroy();
  }
}

interface Source {
  readonly stream: Readable;
  readonly name: string;
  /** undefined: not known before its end. */
  readonly bytes: number | undefined;
}

async function openSource(call: Call<object>, path: string): Promise<Source> {
  if (path === '-') return { stream: call.io.stdin, name: 'standard input', bytes: undefined };
  let handle: FileHandle;
  try {
    handle = await open(path);
  } catch (error) {
    throw fileFailure('read', path, error);
  }
  const info = await handle.stat();
  // A pipe or a device has no size; a file that grows meanwhile is read up to the size it has now.
  if (!info.isFile()) return { stream: handle.createReadStream(), name: path, bytes: undefined };
  if (info.size === 0) {
    await handle.close();
    throw emptyFailure();
  }
  const stream = createReadStream(path, { fd: handle, start: 0, end: info.size - 1 });
  return { stream, name: path, bytes: info.size };
}

function emptyFailure(): CliFailure {
  return new CliFailure('refused', 'EMPTY', 'there is nothing in it');
}

/** What was sent, its time limit, and its progress. */
class Upload {
  readonly #call: Call<object>;
  readonly #source: Source;
  readonly #words: Pick<SentFile, 'what' | 'undone' | 'inDoubt'>;
  readonly #progress: UploadProgress;
  readonly #limit = new AbortController();
  #timer: { cancel(): void } | undefined;
  /** What went wrong with the source, not with the service. */
  #fault: unknown;
  #whole = false;
  /** An answer has arrived, or is no longer expected: it may arrive while the source is still being read. */
  #over = false;

  constructor(call: Call<object>, source: Source, words: Pick<SentFile, 'what' | 'undone' | 'inDoubt'>) {
    this.#call = call;
    this.#source = source;
    this.#words = words;
    this.#progress = new UploadProgress(call, source.bytes);
  }

  /** Aborted when the service takes nothing more, or does not answer, for too long; or with the source's fault. */
  get ended(): AbortSignal {
    return this.#limit.signal;
  }

  /** Throws where there is nothing to send at all. */
  async begin(): Promise<AsyncGenerator<Uint8Array>> {
    const { stream, name } = this.#source;
    const chunks = readable(stream, name, this.#call.stop);
    const first = await chunks.next();
    if (first.done === true) throw emptyFailure();
    return this.#send(first.value, chunks);
  }

  async *#send(first: Uint8Array, rest: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { name, bytes } = this.#source;
    let sent = 0;
    try {
      for (let next: IteratorResult<Uint8Array> = { value: first }; next.done !== true; next = await rest.next()) {
        // The time limit is the service's, for taking this piece; the source may take any time.
        this.#watch();
        // With the last piece of a known length the service may have all of it before the next piece is requested.
        this.#whole = sent + next.value.length === bytes;
        yield next.value;
        this.#timer?.cancel();
        sent += next.value.length;
        await this.#progress.sent(next.value.length);
      }
      if (bytes !== undefined && sent !== bytes) {
        const why = `${safeText(name)} became shorter while it was read`;
        throw new CliFailure('refused', 'FILE_CHANGED', why, { next: this.#words.undone });
      }
      this.#whole = true;
      this.#watch();
      await this.#progress.waiting();
    } catch (error) {
      this.#fault = error;
      this.#limit.abort(error);
      throw error;
    }
  }

  #watch(): void {
    const { io, timeoutMs } = this.#call;
    this.#timer?.cancel();
    if (this.#over) return;
    this.#timer = io.clock.timer(timeoutMs, () => this.#limit.abort(tooSlow(timeoutMs)));
  }

  async finish(): Promise<void> {
    this.#over = true;
    this.#timer?.cancel();
    await this.#progress.end();
  }

  /** What to throw for an error, with what may be said of the import's effect. */
  async failure(error: unknown): Promise<unknown> {
    await this.finish();
    const { stop, err, json } = this.#call;
    const { what, undone, inDoubt } = this.#words;
    const doubt = this.#whole ? inDoubt : '';
    if (stop.aborted) {
      if (!json) await err.write(`lineside: ${what} ended. ${doubt || undone}\n`);
      return error;
    }
    if (this.#fault !== undefined) return this.#fault;
    if (!(error instanceof CliFailure) || error.outcome !== 'unreachable') return error;
    const next = brokenOff.has(error.code) ? brokenNext : error.next;
    return error.with({ next: this.#whole ? doubt : `${next} ${undone}` });
  }
}

/** What a service does that refuses a body without reading it, or that stops. */
const brokenOff: ReadonlySet<string> = new Set(['UNAVAILABLE', 'BROKEN_ANSWER']);
const brokenNext = 'It may be stopping, or not take so much: see journalctl -u lineside-hub.';
