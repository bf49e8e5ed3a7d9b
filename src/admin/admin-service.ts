/**
 * The administration helper: root's part of what an administrator does in the console. systemd opens its socket for the hub's group and
 * starts it with the first connection. It does not trust the hub: each request carries the caller's token, which is checked here
 * against the tokens file, and only the command lines of verbs.ts are run, one at a time.
 */
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  mkdirSync,
  openSync,
  type ReadStream,
  rmSync,
  statSync,
} from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Value } from '@sinclair/typebox/value';
import { TokenReader } from '../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../shared/base/burst-log.ts';
import { type Clock, endsWithin, systemClock, type Timer, withLimit } from '../shared/base/clock.ts';
import { asLinesideError, LinesideError, messageOf } from '../shared/base/errors.ts';
import { objectIn } from '../shared/base/json.ts';
import { peerOf } from '../shared/base/libc.ts';
import { createLogger, type Logger } from '../shared/base/logger.ts';
import { loadTolerant } from '../shared/config/load.ts';
import { inheritedSockets } from '../shared/host/systemd-sockets.ts';
import { AuditFile, BEGUN } from './audit-file.ts';
import { type Ended, environmentOf, failureIn, run } from './command.ts';
import { Upload } from './upload.ts';
import {
  type AdminAnswer,
  type AdminFailure,
  type AdminRequest,
  type ArgsOf,
  type CommandVerb,
  MAX_REQUEST_BYTES,
  type OwnVerbName,
  READY_LINE,
  REQUEST_LIMIT_MS,
  TURN_LIMIT_MS,
  UPLOAD_TURN_LIMIT_MS,
  type UploadKind,
  type UploadVerbName,
  verbOf,
  workUnits,
} from './verbs.ts';

/** systemd starts it again with the next connection. */
const IDLE_MS = 30_000;
/** Requests that wait for their turn, the running one included. */
const MAX_CONNECTIONS = 8;
/** A reader of a file that takes nothing for so long has gone. */
const STALLED_MS = 60_000;
/** And one that is not done after so long: 2 GiB at 1.2 Mbit/s. Another file is refused meanwhile. */
export const SENDING_LIMIT_MS = 4 * 3_600_000;
/** systemd says at once what a unit does. */
const UNIT_LIMIT_MS = 10_000;
const DEFAULT_STATE_DIR = '/var/lib/lineside-admin';
type Program = readonly [string, ...string[]];

export interface AdminOptions {
  readonly programs: Readonly<Record<'lineside' | 'systemctl', Program>>;
  /** After the command of `lineside`, before its arguments. */
  readonly configFile: string | undefined;
  readonly tokensFile: string;
  /** Besides root: the group that may connect. */
  readonly group: number;
  /** Of root alone: the audit, and files on their way. */
  readonly stateDir: string;
  /** What a user types to confirm. */
  readonly boxName: () => string;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A request that was admitted. */
interface Admitted {
  readonly request: AdminRequest;
  readonly verb: NonNullable<ReturnType<typeof verbOf>>;
  /** Name of the caller's token. */
  readonly caller: string;
  readonly socket: Socket;
  /** Fires when the caller disconnects. */
  readonly gone: AbortSignal;
}
type AdmittedCommand = Admitted & { readonly verb: CommandVerb };

export class AdminService {
  readonly #o: AdminOptions;
  readonly #server: Server;
  readonly #tokens: TokenReader;
  readonly #refusals: AuthFailureLog;
  readonly #audit: AuditFile;
  readonly #filesDir: string;
  readonly #upload: Upload;
  readonly #open = new Set<Socket>();
  /** What the helper does itself. */
  readonly #own: { readonly [Name in OwnVerbName]: (args: ArgsOf<Name>) => unknown } = {
    audit: ({ before, limit, reads }) =>
      this.#audit.page(before, limit, (verb) => reads || verbOf(verb)?.reads !== true),
    'upload.check': ({ bytes }) => this.#upload.checkRoom(bytes),
  };
  #idleTimer: Timer | undefined;
  #running = '';
  /** The file that is being sent. */
  #sending: ReadStream | undefined;
  /** Resolves when the last of those that wait for their turn is done. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(options: AdminOptions) {
    this.#o = options;
    const { tokensFile, clock, logger, stateDir } = options;
    this.#tokens = new TokenReader(tokensFile, clock, logger);
    this.#refusals = new AuthFailureLog(clock, logger);
    mkdirSync(stateDir, { recursive: true, mode: 0o700 });
    this.#audit = new AuditFile(stateDir, clock);
    this.#filesDir = join(stateDir, 'files');
    // Of a helper that was killed.
    rmSync(this.#filesDir, { recursive: true, force: true });
    this.#upload = new Upload(stateDir, clock);
    this.#server = createServer((socket) => void this.#serve(socket));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** Resolves when there was no connection for IDLE_MS, or after stop(). */
  serve(listen: { readonly fd: number } | { readonly path: string }): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject).once('close', () => {
        this.#refusals.stop();
        resolve();
      });
      this.#server.listen(listen, () => this.#idle());
    });
  }

  stop(): void {
    this.#idleTimer?.cancel();
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
    this.#upload.drop();
  }

  #idle(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = this.#o.clock.timer(Math.max(IDLE_MS, this.#upload.neededMs), () => this.stop());
  }

  async #serve(socket: Socket): Promise<void> {
    const gone = new AbortController();
    this.#idleTimer?.cancel();
    this.#open.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => {
      gone.abort();
      this.#open.delete(socket);
      if (this.#open.size === 0 && this.#server.listening) this.#idle();
    });
    try {
      this.#checkPeer(socket);
      const line = await readRequest(socket, this.#o.clock, gone.signal);
      const admitted = { ...(await this.#admit(line)), socket, gone: gone.signal };
      // A file takes its time to arrive: other verbs are done meanwhile.
      if (isUpload(admitted.verb)) await this.#perform(admitted);
      else await this.#inTurn(admitted, () => this.#perform(admitted));
    } catch (error) {
      if (!gone.signal.aborted) this.#answer(socket, { error: failureOf(error, this.#o.logger) });
    }
  }

  #answer(socket: Socket, answer: AdminAnswer): void {
    socket.end(`${JSON.stringify(answer)}\n`);
  }

  /** The socket's mode keeps others out; this holds too if that was loosened. */
  #checkPeer(socket: Socket): void {
    const handle: unknown = '_handle' in socket ? socket._handle : undefined;
    const fd: unknown = typeof handle === 'object' && handle !== null && 'fd' in handle ? handle.fd : undefined;
    if (typeof fd !== 'number') throw new LinesideError('INTERNAL', 'a connection has no descriptor');
    const { uid, gid } = peerOf(fd);
    if (uid === 0 || gid === this.#o.group) return;
    this.#refusals.note('connect', `uid ${uid}`, 'not of the group of the hub');
    throw new LinesideError('PERMISSION_DENIED', `user ${uid} may not use the administration helper`);
  }

  async #admit(line: string): Promise<Omit<Admitted, 'socket' | 'gone'>> {
    const request = requestIn(line);
    const owner = await this.#tokens.find(request.token);
    const refuse = (code: 'UNAUTHENTICATED' | 'PERMISSION_DENIED', reason: string): LinesideError => {
      this.#refusals.note('administration', owner?.name ?? 'unknown', reason);
      return new LinesideError(code, reason);
    };
    if (owner === undefined) throw refuse('UNAUTHENTICATED', 'no such token, or it was revoked');
    if (!owner.roles.includes('admin'))
      throw refuse('PERMISSION_DENIED', `token "${owner.name}" has not the role admin that this needs`);
    const verb = verbOf(request.verb);
    if (verb === undefined) throw new LinesideError('UNSUPPORTED', 'the administration helper has no such verb');
    const [fault] = Value.Errors(verb.args, request.args);
    if (fault !== undefined)
      throw new LinesideError('INVALID_ARGUMENT', `${request.verb}: ${fault.path}: ${fault.message}`);
    return { request, verb, caller: owner.name };
  }

  /** One at a time. CONFLICT if it is not its turn within the limit. */
  async #inTurn<T>({ request, verb }: Admitted, work: () => Promise<T>, limitMs = TURN_LIMIT_MS): Promise<T> {
    const { promise: done, resolve: end } = Promise.withResolvers<void>();
    const before = this.#tail;
    this.#tail = before.then(() => done);
    try {
      const isInTime = await endsWithin(this.#o.clock, limitMs, before);
      if (!isInTime)
        throw new LinesideError('CONFLICT', `another administrator's command is running: ${this.#running}`, {
          hint: 'try again when it is done',
        });
      if (!(verb.besideWork ?? verb.reads ?? false)) await this.#checkUnits();
      this.#running = request.verb;
      return await work();
    } finally {
      end();
    }
  }

  /** CONFLICT: a unit works. */
  async #checkUnits(): Promise<void> {
    const kind = this.#upload.taken;
    if (kind === undefined) return;
    const { unit, does } = workUnits[kind];
    const [program, ...first] = this.#o.programs.systemctl;
    const child = {
      program,
      given: [...first, 'is-active', '--quiet', unit],
      env: environmentOf(this.#o.env),
      input: '',
    };
    const { status } = await withLimit(this.#o.clock, UNIT_LIMIT_MS, undefined, (signal) => run(child, signal));
    if (status === 0) throw new LinesideError('CONFLICT', does, { hint: 'try again when it is done' });
    this.#upload.dropTaken(kind);
  }

  /** No change is begun that could not be written down before, and nothing is answered that could not be. */
  async #perform(admitted: Admitted): Promise<void> {
    const { verb, socket, gone } = admitted;
    // The caller has disconnected while it waited.
    if (gone.aborted) return;
    const note = (outcome: string): void => this.#note(admitted, outcome);
    if (verb.reads !== true) note(BEGUN);
    try {
      const answer = await this.#run(admitted);
      note(doneIn(verb, answer));
      if (typeof answer === 'number') this.#send(socket, answer);
      else this.#answer(socket, answer);
    } catch (error) {
      if ('answer' in verb && verb.answer === 'file') rmSync(this.#filesDir, { recursive: true, force: true });
      note(gone.aborted ? 'aborted: the caller disconnected' : `failed: ${asLinesideError(error).code}`);
      throw error;
    }
  }

  #note({ request: { verb, args: given }, verb: { noted }, caller }: Admitted, outcome: string): void {
    const args = noted === undefined ? given : noted(given);
    this.#audit.append({ caller, verb, args, outcome });
    this.#o.logger.info('administration', { verb, by: caller, args: JSON.stringify(args), outcome });
  }

  /** A number: the open file that is the answer. */
  async #run(admitted: Admitted): Promise<AdminAnswer | number> {
    const { verb, request } = admitted;
    if (!('command' in verb)) {
      const work = this.#own[request.verb as OwnVerbName] as (args: AdminRequest['args']) => unknown;
      return { done: (await work(request.args)) ?? null };
    }
    const gone = verb.outlivesCaller === true ? new AbortController().signal : admitted.gone;
    const command = { ...admitted, verb, gone };
    if (verb.confirms === true) this.#checkConfirmed(String(request.args['confirm']));
    if (verb.uploads !== undefined) return this.#received(command, verb.uploads);
    if (verb.uses !== undefined) return this.#used(command, verb.uses);
    if (verb.answer !== 'file') return { done: await this.#command(command, '') };
    if (this.#sending !== undefined)
      throw new LinesideError('CONFLICT', 'another file is being sent', { hint: 'try again when it is done' });
    const file = this.#freshFile();
    await this.#command(command, file);
    return openPlain(file);
  }

  #checkConfirmed(typed: string): void {
    const name = this.#o.boxName();
    if (typed === name) return;
    throw new LinesideError('INVALID_ARGUMENT', `"${typed}" is not the name of this box`, {
      hint: `type the name of the box: ${name}`,
    });
  }

  /** The file, then the command that checks it. Nothing is left of one that is not good. */
  async #received(admitted: AdmittedCommand, kind: UploadKind): Promise<AdminAnswer> {
    const { socket, request } = admitted;
    const { bytes } = request.args as ArgsOf<UploadVerbName>;
    await this.#inTurn(admitted, () => Promise.resolve());
    const sha256 = await this.#upload.receive(socket, kind, bytes, () => socket.write(READY_LINE));
    try {
      const check = (): Promise<unknown> => this.#command(admitted, this.#upload.path);
      const found = await this.#inTurn(admitted, check, UPLOAD_TURN_LIMIT_MS);
      return { done: { ...(found as object), sha256 } };
    } catch (error) {
      this.#upload.drop();
      throw error;
    }
  }

  /** Starts the unit that works on an upload. */
  async #used(admitted: AdmittedCommand, kind: UploadKind): Promise<AdminAnswer> {
    const { sha256 } = admitted.request.args as ArgsOf<'update.install'>;
    this.#upload.take(kind, sha256);
    try {
      return { done: await this.#command(admitted, '') };
    } catch (error) {
      this.#upload.giveBack(kind, sha256);
      throw error;
    }
  }

  async #command({ verb, request, gone }: AdmittedCommand, file: string): Promise<unknown> {
    const { clock, programs, configFile } = this.#o;
    const words = verb.command(request.args, file);
    const [program, ...first] = programs[verb.program];
    // After the words of the command: "--" may end the options.
    const hasConfig = verb.program === 'lineside' && verb.withoutConfig !== true && configFile !== undefined;
    const at = hasConfig ? ['--config', configFile] : [];
    const split = words.findIndex((word) => word.startsWith('-'));
    const from = split === -1 ? words.length : split;
    const given = [...first, ...words.slice(0, from), ...at, ...words.slice(from)];
    const child = { program, given, env: environmentOf(this.#o.env), input: verb.input?.(request.args) ?? '' };
    const ended = await withLimit(clock, verb.limitMs, gone, (signal) => run(child, signal)).catch((error: unknown) => {
      if (gone.aborted || asLinesideError(error).code !== 'REQUEST_TIMEOUT') throw error;
      throw new LinesideError('NOT_READY', `${request.verb} did not end within ${verb.limitMs / 1_000} s`);
    });
    if (!isAnswer(verb, ended)) throw this.#failure(request.verb, ended);
    return verb.answer === 'json' ? JSON.parse(ended.stdout) : null;
  }

  #failure(verb: string, { status, stderr }: Ended): LinesideError {
    const failure = failureIn(stderr);
    if (failure !== undefined) return failure;
    this.#o.logger.error('an administration command failed', { verb, said: stderr.slice(-MAX_SAID_CHARS) });
    return new LinesideError('INTERNAL', `${verb} failed with status ${status}`, {
      hint: 'see: journalctl -u lineside-admin',
    });
  }

  /** Of a file that was cut short nothing is left. A link that stands there is removed, not followed. */
  #freshFile(): string {
    rmSync(this.#filesDir, { recursive: true, force: true });
    mkdirSync(this.#filesDir, { mode: 0o700 });
    return join(this.#filesDir, 'file');
  }

  /** The name goes before the first byte: nothing is left of it however the sending ends. */
  #send(socket: Socket, fd: number): void {
    const { size } = fstatSync(fd);
    // Ends with its last byte, not with a read behind it: who has the whole file may ask for the next at once.
    const content = createReadStream('', { fd, end: Math.max(0, size - 1) });
    this.#sending = content;
    const over = (): void => {
      if (this.#sending === content) this.#sending = undefined;
    };
    rmSync(this.#filesDir, { recursive: true, force: true });
    socket.write(`${JSON.stringify({ done: null, bytes: size } satisfies AdminAnswer)}\n`);
    socket.setTimeout(STALLED_MS, () => socket.destroy());
    const late = this.#o.clock.timer(SENDING_LIMIT_MS, () => socket.destroy());
    content.once('error', () => socket.destroy());
    content.once('end', over);
    content.once('close', () => {
      over();
      late.cancel();
    });
    socket.once('close', () => content.destroy());
    content.pipe(socket);
  }
}

function isAnswer({ alsoGood }: CommandVerb, { status, stdout }: Ended): boolean {
  return status === 0 || (stdout !== '' && alsoGood?.includes(status) === true);
}

function isUpload(verb: Admitted['verb']): boolean {
  return 'uploads' in verb && verb.uploads !== undefined;
}

function doneIn(verb: Admitted['verb'], answer: AdminAnswer | number): string {
  const did = 'did' in verb && typeof answer === 'object' && 'done' in answer ? verb.did(answer.done) : '';
  return did === '' ? 'done' : `done: ${did}`;
}

/** Of a command that failed in its own way. */
const MAX_SAID_CHARS = 2_000;

function openPlain(file: string): number {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new LinesideError('INTERNAL', 'the command left something that is no file');
}

// A request.

/** The first line, which has to end in time; nothing may follow it. */
async function readRequest(socket: Socket, clock: Clock, gone: AbortSignal): Promise<string> {
  return withLimit(clock, REQUEST_LIMIT_MS, gone, (signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const pieces: Buffer[] = [];
    let bytes = 0;
    const take = (piece: Buffer): void => {
      pieces.push(piece);
      bytes += piece.length;
      const end = piece.indexOf('\n');
      if (bytes > MAX_REQUEST_BYTES)
        reject(new LinesideError('TOO_LARGE', `a request has at most ${MAX_REQUEST_BYTES} bytes`));
      else if (end === piece.length - 1) resolve(Buffer.concat(pieces).toString('utf8'));
      else if (end !== -1) reject(new LinesideError('MALFORMED', 'bytes follow the request'));
    };
    socket.on('data', take);
    signal.addEventListener('abort', () =>
      reject(new LinesideError('REQUEST_TIMEOUT', 'the request did not arrive whole')),
    );
    return promise.finally(() => {
      // What still comes is read and dropped.
      socket.off('data', take);
      socket.resume();
    });
  });
}

function requestIn(line: string): AdminRequest {
  const { verb, token, args, ...more } = objectIn(line) ?? {};
  const isPlain = typeof args === 'object' && args !== null && !Array.isArray(args);
  if (typeof verb !== 'string' || typeof token !== 'string' || !isPlain || Object.keys(more).length > 0)
    throw new LinesideError('MALFORMED', 'a request is one JSON object with verb, token and args');
  return { verb, token, args: args as AdminRequest['args'] };
}

function failureOf(thrown: unknown, logger: Logger): AdminFailure {
  const { code, message, hint, reasons } = asLinesideError(thrown);
  if (code !== 'INTERNAL' || thrown instanceof LinesideError) return { code, message, hint, reasons };
  logger.error('an administration request met an unforeseen fault', { error: messageOf(thrown) });
  return { code, message: 'internal failure; the helper has logged it', hint: '', reasons: [] };
}

/** `lineside admin-service`. Resolves when there is nothing to do. CONFIG_INVALID: systemd handed over no socket. */
export async function serveAdmin(configFile: string | undefined, env: NodeJS.ProcessEnv): Promise<void> {
  const logger = createLogger({
    write: (line) => void process.stderr.write(line),
    journal: env['JOURNAL_STREAM'] !== undefined,
    debug: false,
    wallMs: () => systemClock.wallMs(),
  });
  const stateDir = env['STATE_DIRECTORY'] ?? DEFAULT_STATE_DIR;
  const sockets = await inheritedSockets(env);
  const [socket] = sockets;
  if (sockets.length !== 1 || socket?.address.kind !== 'unix')
    throw new LinesideError('CONFIG_INVALID', 'the administration helper needs its one Unix socket of systemd', {
      hint: 'systemctl start lineside-admin.socket',
    });
  const { config, warning } = loadTolerant(configFile, environmentOf(env), ['auth.tokens_file']);
  if (warning !== '') logger.warn('configuration', { warning });
  const service = new AdminService({
    programs: {
      lineside: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
      systemctl: ['/usr/bin/systemctl'],
    },
    configFile,
    tokensFile: config.auth.tokensFile,
    group: statSync(socket.address.path).gid,
    stateDir,
    boxName: hostname,
    env,
    clock: systemClock,
    logger,
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => service.stop());
  await service.serve({ fd: socket.fd });
}
