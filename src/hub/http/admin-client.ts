/** The administration helper as the hub calls it: a verb with the caller's own token, over a Unix socket for each call. */
import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { type AdminAnswer, type ArgsOf, TURN_LIMIT_MS, type VerbName, verbs } from '../../admin/verbs.ts';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { errorCatalogue, LinesideError, systemCode } from '../../shared/base/errors.ts';
import { objectIn } from '../../shared/base/same-json.ts';

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
    const socket = connect(this.#path);
    // The helper stops the verb, and removes what it made.
    const stop = (): void => void socket.destroy(new LinesideError('NOT_READY', 'the client disconnected'));
    gone.addEventListener('abort', stop, { once: true });
    if (gone.aborted) stop();
    try {
      const { bytes, rest } = await this.#ask(socket, verb, authorization, args);
      if (bytes === undefined) throw new LinesideError('INTERNAL', 'the administration helper sent no file');
      return { bytes, content: Readable.from(exactly(bytes, rest, socket), { objectMode: false }) };
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  async #ask(socket: Socket, verb: VerbName, authorization: string | undefined, args: object) {
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
    return withLimit(this.#clock, verbs[verb].limitMs + MORE_MS, undefined, async (signal) => {
      signal.addEventListener('abort', () => socket.destroy(new Error('no answer in time')));
      socket.write(`${JSON.stringify({ verb, token, args })}\n`);
      const { line, rest } = await firstLine(socket).catch((error: unknown) => {
        throw signal.aborted ? error : unreached(error);
      });
      const answer = objectIn(line) as AdminAnswer | undefined;
      if (answer === undefined)
        throw new LinesideError('NOT_READY', 'the administration helper ended without an answer');
      if ('error' in answer) throw failureOf(answer.error);
      return { ...answer, rest };
    });
  }
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
      hint: 'on the box: sudo lineside token, lineside doctor, lineside support-bundle, lineside backup',
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
