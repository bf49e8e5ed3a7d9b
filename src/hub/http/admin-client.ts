/** The administration helper as the hub calls it: a verb with the caller's own token, over a Unix socket for each call. */
import { connect, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import {
  type AdminAnswer,
  type ArgsOf,
  READY_LINE,
  RECEIVING_LIMIT_MS,
  TURN_LIMIT_MS,
  UPLOAD_TURN_LIMIT_MS,
  type UploadVerbName,
  type VerbName,
  verbs,
} from '../../admin/verbs.ts';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { errorCatalogue, LinesideError, systemCode } from '../../shared/base/errors.ts';
import { objectIn } from '../../shared/base/json.ts';
import { readWork, WORK_DIR } from '../../shared/base/work-state.ts';
import type { AdminWork } from '../../shared/gen/http.ts';

/** Beside the verb's own limit: its start by systemd, and its turn. */
const MORE_MS = TURN_LIMIT_MS + 10_000;
/** The doctor's findings are some ten KiB. */
const MAX_LINE_BYTES = 2 * 1_024 * 1_024;

export interface SentFile {
  readonly bytes: number;
  readonly content: Readable;
}

export class AdminClient {
  readonly #path: string;
  readonly #clock: Clock;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /** What the helper's units do, or did last. */
  work(): AdminWork {
    const of = (name: keyof AdminWork) => readWork(join(dirname(this.#path), WORK_DIR, `${name}.json`));
    return { update: of('update'), restore: of('restore') };
  }

  /** `authorization`: the header of the caller. Throws what the helper refuses; UNSUPPORTED if there is none. */
  async call<Name extends VerbName>(
    verb: Name,
    authorization: string | undefined,
    args: ArgsOf<Name>,
  ): Promise<unknown> {
    const socket = connect(this.#path);
    try {
      return (await this.#ask(socket, verb, authorization, args)).done;
    } finally {
      socket.destroy();
    }
  }

  /** The answer's file, to be read to its end or destroyed. */
  async file<Name extends VerbName>(
    verb: Name,
    authorization: string | undefined,
    args: ArgsOf<Name>,
    gone: AbortSignal,
  ): Promise<SentFile> {
    const socket = this.#connectUntil(gone);
    try {
      const { bytes, rest } = await this.#ask(socket, verb, authorization, args);
      if (bytes === undefined) throw new LinesideError('INTERNAL', 'the administration helper sent no file');
      return { bytes, content: Readable.from(exactly(bytes, rest, socket), { objectMode: false }) };
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /**
   * Sends a file of so many bytes at the helper's pace, and answers what it found in the file. The rest of `content` is dropped if the
   * helper refuses the file before its end.
   */
  async upload(
    verb: UploadVerbName,
    authorization: string | undefined,
    bytes: number,
    content: Readable,
    gone: AbortSignal,
  ): Promise<unknown> {
    const socket = this.#connectUntil(gone);
    try {
      this.#request(socket, verb, authorization, { bytes });
      const ready = await this.#line(socket, MORE_MS);
      if (ready.line !== READY_LINE.trimEnd()) return answerIn(ready.line).done;
      // An answer that came at once.
      if (ready.rest.length > 0) socket.unshift(ready.rest);
      const end = pour(content, socket);
      try {
        const limitMs = RECEIVING_LIMIT_MS + UPLOAD_TURN_LIMIT_MS + verbs[verb].limitMs + MORE_MS;
        return answerIn((await this.#line(socket, limitMs)).line).done;
      } finally {
        end();
      }
    } finally {
      socket.destroy();
    }
  }

  /** When the client is gone the helper stops the verb, and removes what it made, or has of the client's file. */
  #connectUntil(gone: AbortSignal): Socket {
    const socket = connect(this.#path);
    const stop = (): void => void socket.destroy(new LinesideError('NOT_READY', 'the client disconnected'));
    gone.addEventListener('abort', stop, { once: true });
    if (gone.aborted) stop();
    return socket;
  }

  async #ask(socket: Socket, verb: VerbName, authorization: string | undefined, args: object) {
    this.#request(socket, verb, authorization, args);
    const { line, rest } = await this.#line(socket, verbs[verb].limitMs + MORE_MS);
    return { ...answerIn(line), rest };
  }

  #request(socket: Socket, verb: VerbName, authorization: string | undefined, args: object): void {
    const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
    if (token === undefined) {
      throw new LinesideError(
        'UNAUTHENTICATED',
        'administration needs a token with the role admin, on this socket too',
        {
          hint: 'send the header "Authorization: Bearer TOKEN", or use the command "lineside token" on the box',
        },
      );
    }
    socket.write(`${JSON.stringify({ verb, token, args })}\n`);
  }

  #line(socket: Socket, limitMs: number): ReturnType<typeof firstLine> {
    return withLimit(this.#clock, limitMs, undefined, async (signal) => {
      signal.addEventListener('abort', () => socket.destroy(new Error('no answer in time')));
      return firstLine(socket).catch((error: unknown) => {
        throw signal.aborted ? error : unreached(error);
      });
    });
  }
}

function answerIn(line: string): Exclude<AdminAnswer, { error: unknown }> {
  const answer = objectIn(line) as AdminAnswer | undefined;
  if (answer === undefined) throw new LinesideError('NOT_READY', 'the administration helper ended without an answer');
  if ('error' in answer) throw failureOf(answer.error);
  return answer;
}

/** Nothing is held beyond the buffers of the two streams. Call what it answers at the end, also if that came early. */
function pour(content: Readable, socket: Socket): () => void {
  const take = (piece: Buffer): void => {
    if (!socket.write(piece)) content.pause();
  };
  const more = (): void => void content.resume();
  content.on('data', take);
  socket.on('drain', more);
  return () => {
    content.off('data', take);
    socket.off('drain', more);
  };
}

/** Up to the line's end, and what came behind it; '': the connection ended before. */
function firstLine(socket: Socket): Promise<{ readonly line: string; readonly rest: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ line: string; rest: Buffer }>();
  const pieces: Buffer[] = [];
  let bytes = 0;
  const take = (piece: Buffer): void => {
    const end = piece.indexOf('\n');
    pieces.push(end === -1 ? piece : piece.subarray(0, end));
    bytes += piece.length;
    if (end !== -1) {
      socket.pause();
      socket.off('data', take);
      resolve({ line: Buffer.concat(pieces).toString('utf8'), rest: piece.subarray(end + 1) });
    } else if (bytes > MAX_LINE_BYTES)
      reject(new LinesideError('INTERNAL', 'the answer of the administration helper is too long'));
  };
  socket.on('data', take);
  // It may have been paused after the line before.
  socket.resume();
  socket.once('error', reject);
  socket.once('close', () => resolve({ line: '', rest: Buffer.alloc(0) }));
  return promise;
}

/** An answer that is cut short fails: a file that seems whole would be worse. */
async function* exactly(bytes: number, rest: Buffer, socket: Socket): AsyncGenerator<Buffer> {
  try {
    let left = bytes - rest.length;
    if (rest.length > 0) yield rest;
    if (left > 0) {
      for await (const piece of socket) {
        left -= (piece as Buffer).length;
        yield piece as Buffer;
      }
    }
    if (left !== 0) throw new LinesideError('STORAGE_FAILED', 'the file was cut short');
  } finally {
    socket.destroy();
  }
}

function unreached(error: unknown): unknown {
  const code = systemCode(error);
  if (code === 'ENOENT' || code === 'ECONNREFUSED') {
    return new LinesideError('UNSUPPORTED', 'this box offers no administration over HTTP: its helper does not run', {
      cause: error,
      hint: 'Use these commands on the box: sudo lineside token, lineside doctor, lineside support-bundle, lineside backup',
    });
  }
  return code === '' || error instanceof LinesideError
    ? error
    : new LinesideError('NOT_READY', `the administration helper cannot be reached: ${code}`, { cause: error });
}

function failureOf({ code, message, hint, reasons }: Extract<AdminAnswer, { error: unknown }>['error']): LinesideError {
  const known = Object.hasOwn(errorCatalogue, code) ? (code as LinesideError['code']) : 'INTERNAL';
  return new LinesideError(known, message, { hint, reasons });
}
