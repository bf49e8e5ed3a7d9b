/** import: a bundle of records, in one transaction, all or nothing; streamed, so its size costs no memory here. */
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type Given, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { tooSlow } from '../connection/service.ts';
import { CliFailure } from '../failure.ts';
import { fileFailure, readable } from '../input.ts';
import { safeText } from '../output/hex.ts';
import { byteSize, grouped, spanText } from '../output/numbers.ts';
import { cut } from '../output/table.ts';
import type { Call } from '../shell.ts';
import { hubCommands, reason, reasonHeader, timeText } from './hub-command.ts';

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

const mediaTypes = { ndjson: 'application/x-ndjson', json: 'application/json' } as const;

/**
 * Without a sign from the service. It reads a bundle when those before it are done (up to four, at most two minutes each),
 * and answers when all of it is checked and stored: minutes on a slow card.
 */
const usualTimeoutSeconds = 600;

const options = [
  option('--format <format>', 'default: json for *.json, else ndjson', { choices: ['ndjson', 'json'] }),
  reason,
] as const;

export const importCommands = hubCommands([
  {
    command: 'import',
    help: 'import a bundle of records (-: standard input): one transaction, all or nothing',
    arguments: [{ name: '<file>', help: 'the bundle, NDJSON or JSON (-: standard input)' }],
    options,
    notes: `A line each (ndjson): {"dictionary": "pumps", "businessKey": "P-101", "data": {...}}, where it is wanted with
"validFrom" and "action" (upsert, the default, or close); or JSON: {"items": [...]}. When anything is wrong with it,
nothing is imported and every fault is listed. The service takes bundles one after the other;
--timeout is how long it may give no sign.`,
    examples: [
      'lineside import site.ndjson --reason "from the planning office"',
      'zcat site.ndjson.gz | lineside import -',
    ],
    what: ({ file = '' }) => `import ${file === '-' ? 'standard input' : safeText(file)}`,
    timeoutSeconds: usualTimeoutSeconds,
    request: 'POST imports',
    answer: (call: ImportCall, [, path], { changeReason }, { file = '' }) =>
      importBundle(call, path, reasonHeader(changeReason), file),
  },
]);

type ImportCall = Call<Given<typeof options>>;

async function importBundle(call: ImportCall, path: string, reason: Record<string, string>, file: string) {
  const format = call.options.format ?? (file.endsWith('.json') ? 'json' : 'ndjson');
  const headers = { 'content-type': mediaTypes[format], ...reason };
  const hub = await call.hub();
  const source = await openSource(call, file);
  const upload = new Upload(call, source);
  try {
    const chunks = await upload.begin();
    const length = source.bytes === undefined ? {} : { 'content-length': String(source.bytes) };
    const request = { method: 'POST', path, headers: { ...headers, ...length }, body: chunks } as const;
    const answer = await hub.upload(request, upload.ended);
    await upload.finish();
    return await call.print(answer, resultText(new Fields(answer, 'the result')));
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

/** The upload of a bundle: what was sent, its time limit, and its progress. */
class Upload {
  readonly #call: Call<object>;
  readonly #source: Source;
  readonly #progress: UploadProgress;
  readonly #limit = new AbortController();
  #timer: { cancel(): void } | undefined;
  /** What went wrong with the source, not with the service. */
  #fault: unknown;
  #whole = false;
  /** An answer has arrived, or is no longer expected: it may arrive while the source is still being read. */
  #over = false;

  constructor(call: Call<object>, source: Source) {
    this.#call = call;
    this.#source = source;
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
        const why = `${safeText(name)} became shorter while it was read; nothing was imported`;
        throw new CliFailure('refused', 'FILE_CHANGED', why);
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
    const doubt = this.#whole
      ? 'The bundle had been sent whole: it may have been imported. Look before you try again.'
      : '';
    if (stop.aborted) {
      if (!json) await err.write(`lineside: import ended. ${doubt || 'Nothing was imported.'}\n`);
      return error;
    }
    if (this.#fault !== undefined) return this.#fault;
    if (!(error instanceof CliFailure) || error.outcome !== 'unreachable') return error;
    const next = brokenOff.has(error.code) ? brokenNext : error.next;
    return error.with({ next: this.#whole ? doubt : `${next} Nothing was imported.` });
  }
}

/** What a service does that refuses a body without reading it, or that stops. */
const brokenOff: ReadonlySet<string> = new Set(['UNAVAILABLE', 'BROKEN_ANSWER']);
const brokenNext = 'It may be stopping, or not take so much: see journalctl -u lineside-hub.';

function resultText(result: Fields): string {
  const counts = (['created', 'updated', 'closed', 'unchanged'] as const).map(
    (name) => `${grouped(result.number(name))} ${name}`,
  );
  return `imported: ${counts.join(', ')} (${timeText(result.text('txTime'))})\n`;
}
