/** What surrounds each command: its streams, signals, connection options, and the way its outcome becomes an exit status. */

import { CommanderError } from 'commander';
import { asLinesideError, LinesideError } from '../shared/base/errors.ts';
import { shownJson } from '../shared/base/shown-json.ts';
import { type ConnectionOptions, type Face, hubFace, lineFace, type Profile, sourceOf } from './connection/endpoint.ts';
import { Hub } from './connection/hub-client.ts';
import { findProfile } from './connection/profiles.ts';
import { findPlace, type Place } from './connection/secrets.ts';
import { type Send, Service } from './connection/service.ts';
import { CliFailure, exitStatus, failureJson, failureLine, signalStatus, usageFailure } from './failure.ts';
import type { CliIo, StopSignal } from './io.ts';
import { type colourTimes, wantsColour } from './output/colour.ts';
import { safeLines, safeText } from './output/hex.ts';
import { type Json, jsonLine } from './output/json.ts';
import { Output, OutputClosed, openPager } from './output/output.ts';

/** A signal asked the command to end. */
class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly signal: StopSignal;

  constructor(signal: StopSignal) {
    super(`ended by ${signal}`);
    this.signal = signal;
  }
}

export interface CommonOptions extends ConnectionOptions {
  readonly json?: boolean;
  readonly color?: (typeof colourTimes)[number];
  /** Of a command whose output may be long: false leaves out the pager. */
  readonly pager?: boolean;
  /** Milliseconds. */
  readonly timeout: number;
}

/** One command being run. */
export interface Call<Options> {
  readonly io: CliIo;
  readonly out: Output;
  readonly err: Output;
  readonly json: boolean;
  /** Whether the output may have colours. */
  readonly colour: boolean;
  readonly options: CommonOptions & Options;
  /** Words after `--`, of a command that takes them. */
  readonly rest: readonly string[];
  /** Aborted, with Interrupted as its reason, by Ctrl-C and the like. */
  readonly stop: AbortSignal;
  readonly timeoutMs: number;
  /** For a command of the line. */
  service(): Promise<Service>;
  /** One call of the line, which may take --timeout and `moreMs`. */
  line<T>(send: Send<T>, moreMs?: number): Promise<T>;
  /** For a command of the hub. */
  hub(): Promise<Hub>;
  /** For a command of the line that may do without: the hub of the same machine; undefined if its address is unknown. */
  hubBeside(timeoutMs: number): Promise<Hub | undefined>;
  /** The one that the command uses, if any. */
  profile(): Profile | undefined;
  /** JSON for scripts, or lines for people; answers the exit status of success. */
  print(json: Json, lines: string): Promise<number>;
}

/** The arguments of a command line by their names; one that was not given is missing. */
export type Args = Readonly<Record<string, string>>;

export interface Runnable {
  /** After "cannot", for errors: 'open <port>'; arguments stand in their places. */
  readonly what?: string | ((args: Args) => string);
  /** Ctrl-C is the usual way to end it: status 0. */
  endsOnCtrlC?(options: object): boolean;
  /** The output may be longer than a screen: it goes through a pager. */
  pages?(options: object): boolean;
  /** Answers the exit status. */
  run(call: Call<object>, args: Args): Promise<number>;
}

/** The Unix socket of an interface of the service that the configuration file (undefined: the usual one) describes. */
export type LocalSocket = (
  section: Face['section'],
  configFile: string | undefined,
  warn: (warning: string) => void,
) => string;

const signals: readonly StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

export class Shell {
  readonly io: CliIo;
  readonly out: Output;
  readonly err: Output;
  status: number = exitStatus.ok;
  readonly #json: boolean;
  readonly #warned = new Set<string>();
  readonly #localSocket: LocalSocket;

  constructor(io: CliIo, json: boolean, localSocket: LocalSocket) {
    this.io = io;
    this.out = new Output(io.stdout);
    this.err = new Output(io.stderr);
    this.#json = json;
    this.#localSocket = localSocket;
  }

  /** Once each: a command may ask for both sockets of one configuration. */
  readonly warn = (warning: string): void => {
    if (this.#warned.has(warning)) return;
    this.#warned.add(warning);
    this.io.stderr.write(safeLines(`lineside: warning: ${warning}\n`));
  };

  /** Runs a command and answers its exit status. */
  async run(command: Runnable, options: CommonOptions, args: Args, rest: readonly string[]): Promise<number> {
    const stop = new AbortController();
    const unhook = this.#hook(stop);
    let service: Service | undefined;
    const isPaged = command.pages?.(options) === true && options.pager !== false && options.json !== true;
    const pager = isPaged ? await openPager(this.io) : undefined;
    const out = pager === undefined ? this.out : new Output(pager.stream);
    try {
      const call = this.#call(options, rest, out, stop.signal, (place) => (service = new Service(place)));
      return await command.run(call, args);
    } catch (error) {
      const isQuiet = command.endsOnCtrlC?.(options) === true;
      return endStatus(error, stop.signal, isQuiet, phrase(command, args));
    } finally {
      unhook();
      service?.drop();
      await pager?.close();
    }
  }

  #call(
    options: CommonOptions,
    rest: readonly string[],
    out: Output,
    stop: AbortSignal,
    serviceAt: (place: Place) => Service,
  ): Call<object> {
    const { io, err } = this;
    const { env } = io;
    const { timeout: timeoutMs, json = false } = options;
    let service: Promise<Service> | undefined;
    let hub: Promise<Hub> | undefined;
    const find = (face: Face): Promise<Place> =>
      findPlace(options, env, face, () => this.#localSocket(face.section, options.config, this.warn));
    const source = () => sourceOf(options, env, lineFace, (name) => findProfile(env, name));
    const findHub = async (limitMs: number) => new Hub(await find(hubFace), { stop, timeoutMs: limitMs });
    const serviceOf = () => (service ??= find(lineFace).then(serviceAt));
    return {
      io,
      out,
      err,
      json,
      colour: !json && wantsColour(io.stdout, env, options.color),
      options,
      rest,
      stop,
      timeoutMs,
      service: serviceOf,
      line: async (send, moreMs = 0) => (await serviceOf()).call(timeoutMs + moreMs, stop, send),
      hub: () => (hub ??= findHub(timeoutMs)),
      profile: () => source().profile,
      hubBeside: async (limitMs) => (source().isWholeBox ? findHub(limitMs) : undefined),
      print: async (value, lines) => {
        await out.write(json ? jsonLine(value) : lines.endsWith('\n') ? lines : `${lines}\n`);
        return exitStatus.ok;
      },
    };
  }

  /** The first signal aborts the command; a second one kills the process. */
  #hook(stop: AbortController): () => void {
    const heard = (signal: StopSignal): void => {
      unhook();
      stop.abort(new Interrupted(signal));
    };
    const offs = signals.map((signal) => this.io.onSignal(signal, () => heard(signal)));
    const unhook = (): void => {
      for (const off of offs) off();
    };
    return unhook;
  }

  /** Reports what was thrown out of a command and answers its exit status. */
  async report(error: unknown, commandName: string): Promise<number> {
    const failure = asFailure(error, commandName);
    if (typeof failure === 'number') return failure;
    try {
      await this.err.write(this.#json ? `${shownJson(failureJson(failure))}\n` : safeLines(failureLine(failure)));
    } catch {
      // Standard error is closed: only the exit status reports the failure.
    }
    return failure.status;
  }

  async release(): Promise<void> {
    await Promise.all([this.out.flush(), this.err.flush()]);
    this.out.release();
    this.err.release();
  }
}

function phrase({ what = '' }: Runnable, args: Args): string {
  if (typeof what === 'function') return `cannot ${what(args)}`;
  return `cannot ${what.replace(/<(\w+)>/g, (_, name: string) => safeText(args[name] ?? ''))}`;
}

function endStatus(error: unknown, stop: AbortSignal, quietOnCtrlC: boolean, what: string): number {
  if (error instanceof OutputClosed) return exitStatus.ok;
  const reason: unknown = stop.aborted ? stop.reason : undefined;
  if (reason instanceof Interrupted && !(error instanceof CliFailure)) {
    return reason.signal === 'SIGINT' && quietOnCtrlC ? exitStatus.ok : signalStatus(reason.signal);
  }
  throw error instanceof CliFailure ? error.during(what) : error;
}

/** The failure to report, or the status to end with where there is nothing to say. */
function asFailure(error: unknown, commandName: string): CliFailure | number {
  if (error instanceof OutputClosed) return exitStatus.ok;
  if (error instanceof CliFailure) return error;
  const seeHelp = `See: lineside ${commandName === '' ? '' : `${commandName} `}--help.`;
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitStatus.ok;
    if (error.code === 'commander.help') return exitStatus.usage;
    return usageFailure(error.message.replace(/^error: /, '').replace(/\n/g, ' '), seeHelp);
  }
  const { code, message, hint } = asLinesideError(error);
  const next = error instanceof LinesideError ? hint : 'This is a defect of lineside: please report it.';
  const outcome = code === 'CONFIG_INVALID' ? 'usage' : code === 'NOT_FOUND' ? 'nothing' : 'refused';
  return new CliFailure(outcome, code, message, { next, cause: error });
}
