/** What surrounds each command: its streams, signals, connection options, and the way its outcome becomes an exit status. */
import { type Command, CommanderError } from 'commander';
import { asLinesideError, LinesideError } from '../shared/base/errors.ts';
import { type ConnectionOptions, type Face, hubFace, lineFace } from './connection/endpoint.ts';
import { Hub } from './connection/hub-client.ts';
import { Service } from './connection/service.ts';
import { CliFailure, exitStatus, failureJson, failureLine, signalStatus, usageFailure } from './failure.ts';
import type { CliIo, StopSignal } from './io.ts';
import { safeLines } from './output/hex.ts';
import { shownJson } from './output/json.ts';
import { secondsAsMs } from './output/numbers.ts';
import { Output, OutputClosed } from './output/output.ts';

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
  /** Milliseconds. */
  readonly timeout: number;
}

/** One command being run, whatever it talks to. */
export interface AnyCall<Options> {
  readonly io: CliIo;
  readonly out: Output;
  readonly err: Output;
  readonly json: boolean;
  readonly options: CommonOptions & Options;
  /** Aborted, with Interrupted as its reason, by Ctrl-C and the like. */
  readonly stop: AbortSignal;
  readonly timeoutMs: number;
}

/** A command of the line. */
export interface Call<Options> extends AnyCall<Options> {
  service(): Promise<Service>;
  /** The hub of the same machine, for what a command may do without; undefined where it is not known where that is. */
  hubBeside(timeoutMs: number): Promise<Hub | undefined>;
}

/** A command of the hub. */
export interface HubCall<Options> extends AnyCall<Options> {
  hub(): Promise<Hub>;
}

export interface CommandSpec<Options, C = Call<Options>> {
  /** What is being done, for errors: "cannot list the ports". */
  readonly what: string | ((args: readonly string[]) => string);
  /** Ctrl-C is the usual way to end it: status 0. */
  readonly endsOnCtrlC?: (options: Options) => boolean;
  /** --timeout where it is not given; default usualTimeoutSeconds. */
  readonly timeoutSeconds?: number;
  /** Answers the exit status. */
  readonly run: (call: C, args: readonly string[]) => Promise<number>;
}

/** The Unix sockets of the service that the configuration file (undefined: the usual one) describes. */
export interface LocalSockets {
  readonly localSocket: LocalSocket;
  readonly localHttpSocket: LocalSocket;
}

type LocalSocket = (configFile: string | undefined, warn: (warning: string) => void) => string | Promise<string>;

interface Connected<C> {
  readonly call: C;
  readonly release: () => void;
}

/** Seconds without an answer after which a call is given up. The service itself answers, or refuses, well within that. */
const usualTimeoutSeconds = 10;
const longestTimeoutSeconds = 86_400;

const signals: readonly StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

export class Shell {
  readonly io: CliIo;
  readonly out: Output;
  readonly err: Output;
  status: number = exitStatus.ok;
  readonly #json: boolean;
  readonly #warned = new Set<string>();
  readonly #sockets: LocalSockets;

  constructor(io: CliIo, json: boolean, sockets: LocalSockets) {
    this.io = io;
    this.out = new Output(io.stdout);
    this.err = new Output(io.stderr);
    this.#json = json;
    this.#sockets = sockets;
  }

  /** Once each: a command may ask for both sockets of one configuration. */
  readonly warn = (warning: string): void => {
    if (this.#warned.has(warning)) return;
    this.#warned.add(warning);
    this.io.stderr.write(safeLines(`lineside: warning: ${warning}\n`));
  };

  #locally(socket: LocalSocket): (configFile: string | undefined) => string | Promise<string> {
    return (configFile) => socket(configFile, this.warn);
  }

  /** Adds the options that every command of the line takes, and runs it. */
  remote<Options extends object>(command: Command, spec: CommandSpec<Options>): Command {
    return this.#add(command, lineFace, spec, (base) => {
      let service: Service | undefined;
      const { options } = base;
      const settings = { options, env: this.io.env, localSocket: this.#locally(this.#sockets.localSocket) };
      const find = async (): Promise<Service> => {
        service ??= await Service.find(settings);
        return service;
      };
      const hubBeside = (timeoutMs: number): Promise<Hub | undefined> => this.#hubBeside(base, timeoutMs);
      return { call: { ...base, service: find, hubBeside }, release: () => service?.drop() };
    });
  }

  /** A socket or a host that was named is the line's: where the hub is cannot be told from it. */
  async #hubBeside({ options, stop }: AnyCall<object>, timeoutMs: number): Promise<Hub | undefined> {
    const { env, clock } = this.io;
    const isNamed = options.socket ?? options.host ?? env['LINESIDE_HOST'];
    const isElsewhere = options.config === undefined && (env['LINESIDE_SOCKET'] ?? '') !== '';
    if ((isNamed ?? '') !== '' || (isElsewhere && (env['LINESIDE_HTTP_SOCKET'] ?? '') === '')) return undefined;
    const settings = { options, env, localSocket: this.#locally(this.#sockets.localHttpSocket) };
    return Hub.find(settings, { stop, timeoutMs, clock });
  }

  /** The same for a command of the hub. */
  hub<Options extends object>(command: Command, spec: CommandSpec<Options, HubCall<Options>>): Command {
    return this.#add(command, hubFace, spec, (base) => {
      let hub: Hub | undefined;
      const { options, stop, timeoutMs } = base;
      const settings = { options, env: this.io.env, localSocket: this.#locally(this.#sockets.localHttpSocket) };
      const find = async (): Promise<Hub> => {
        hub ??= await Hub.find(settings, { stop, timeoutMs, clock: this.io.clock });
        return hub;
      };
      return { call: { ...base, hub: find }, release: () => undefined };
    });
  }

  /** A command that asks no service. */
  alone<Options extends object>(
    command: Command,
    timeoutSeconds: number,
    spec: CommandSpec<Options, AnyCall<Options>>,
  ): Command {
    return this.#on(withTimeout(withJson(command), 'ask for so long', timeoutSeconds), spec, (call) => {
      return { call, release: () => undefined };
    });
  }

  #add<Options extends object, C>(
    command: Command,
    face: Face,
    spec: CommandSpec<Options, C>,
    connect: (base: AnyCall<Options>) => Connected<C>,
  ): Command {
    return this.#on(withConnection(command, face, spec.timeoutSeconds ?? usualTimeoutSeconds), spec, connect);
  }

  #on<Options extends object, C>(
    command: Command,
    spec: CommandSpec<Options, C>,
    connect: (base: AnyCall<Options>) => Connected<C>,
  ): Command {
    return command.action(async (...all: unknown[]) => {
      const args = all.slice(0, -2).filter((arg) => typeof arg === 'string');
      this.status = await this.#run(command.opts<CommonOptions & Options>(), spec, args, connect);
    });
  }

  async #run<Options, C>(
    options: CommonOptions & Options,
    spec: CommandSpec<Options, C>,
    args: string[],
    connect: (base: AnyCall<Options>) => Connected<C>,
  ): Promise<number> {
    const stop = new AbortController();
    const unhook = this.#hook(stop);
    const { io, out, err } = this;
    const base = { io, out, err, json: options.json === true, options, stop: stop.signal, timeoutMs: options.timeout };
    const { call, release } = connect(base);
    try {
      return await spec.run(call, args);
    } catch (error) {
      return endStatus(error, stop.signal, spec.endsOnCtrlC?.(options) === true, phrase(spec, args));
    } finally {
      unhook();
      release();
    }
  }

  /** The first signal asks; a second one kills, as without us. */
  #hook(stop: AbortController): () => void {
    const offs: (() => void)[] = [];
    const unhook = (): void => {
      for (const off of offs.splice(0)) off();
    };
    for (const signal of signals) {
      const call = (): void => {
        unhook();
        stop.abort(new Interrupted(signal));
      };
      offs.push(this.io.onSignal(signal, call));
    }
    return unhook;
  }

  /** Reports what was thrown out of a command and answers its exit status. */
  async report(error: unknown, commandName: string): Promise<number> {
    const failure = asFailure(error, commandName);
    if (typeof failure === 'number') return failure;
    try {
      await this.err.write(this.#json ? `${shownJson(failureJson(failure))}\n` : safeLines(failureLine(failure)));
    } catch {
      // Standard error is not read: the status says it alone.
    }
    return failure.status;
  }

  async release(): Promise<void> {
    await Promise.all([this.out.flush(), this.err.flush()]);
    this.out.release();
    this.err.release();
  }
}

function phrase(spec: Pick<CommandSpec<never>, 'what'>, args: readonly string[]): string {
  return typeof spec.what === 'string' ? spec.what : spec.what(args);
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
  const known = asLinesideError(error);
  const status = known.code === 'CONFIG_INVALID' ? exitStatus.usage : exitStatus.refused;
  const next = error instanceof LinesideError ? known.hint : 'This is a defect of lineside: please report it.';
  return new CliFailure({ status, code: known.code, why: known.message, next, cause: error });
}

function hostHelp(face: Face): string {
  const variable = face === lineFace ? 'LINESIDE_HOST' : "LINESIDE_HOST, whose port is the line's";
  const ports = face === lineFace ? String(face.defaultPort) : `${face.securePort} (${face.defaultPort} without TLS)`;
  return `service on another machine (${variable}); port ${ports}; TLS unless it is loopback`;
}

function withConnection(command: Command, face: Face, timeoutSeconds: number): Command {
  const connected = withJson(command)
    .optionsGroup('Connection (default: the socket of the service on this machine):')
    .option('--socket <path>', `Unix socket of the service (${face.socketVariable})`)
    .option('--config <file>', 'use the socket that this configuration file names')
    .option('--host <host[:port]>', hostHelp(face))
    .option('--tls', 'use TLS on loopback too')
    .option('--plaintext', 'no TLS: only where the service has insecure = true')
    .option('--ca <file>', 'certificate of the authority to trust (LINESIDE_CA)')
    .option('--fingerprint <sha256>', 'trust the box whose authority has it, by any name (LINESIDE_FINGERPRINT)')
    .option('--token-file <file>', 'file that holds the token (LINESIDE_TOKEN_FILE)')
    .option('--cert <file>', 'client certificate, with --key')
    .option('--key <file>', 'key of the client certificate')
    .option('--server-name <name>', 'name in the certificate of the service, when it is not the host');
  return withTimeout(connected, 'give up a call after so long', timeoutSeconds);
}

function withJson(command: Command): Command {
  return command.optionsGroup('Output:').option('--json', 'print JSON for scripts; errors too');
}

function withTimeout(command: Command, meaning: string, seconds: number): Command {
  return command.addOption(
    command
      .createOption('--timeout <seconds>', meaning)
      .argParser(secondsAsMs(longestTimeoutSeconds))
      .default(seconds * 1000, String(seconds)),
  );
}
