/** What surrounds each command: its streams, signals, connection options, and the way its outcome becomes an exit status. */
import { type Command, CommanderError } from 'commander';
import { asLinesideError, LinesideError } from '../base/errors.ts';
import { Service } from './connect.ts';
import type { ConnectionOptions } from './endpoint.ts';
import { CliFailure, exitStatus, failureJson, failureLine, signalStatus, usageFailure } from './failure.ts';
import type { CliIo, StopSignal } from './io.ts';
import { secondsAsMs } from './numbers.ts';
import { Output, OutputClosed } from './output.ts';

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

/** One command being run. */
export interface Call<Options> {
  readonly io: CliIo;
  readonly out: Output;
  readonly err: Output;
  readonly json: boolean;
  readonly options: CommonOptions & Options;
  /** Aborted, with Interrupted as its reason, by Ctrl-C and the like. */
  readonly stop: AbortSignal;
  readonly timeoutMs: number;
  service(): Promise<Service>;
}

export interface CommandSpec<Options> {
  /** What is being done, for errors: "cannot list the ports". */
  readonly what: string | ((args: readonly string[]) => string);
  /** Ctrl-C is the usual way to end it: status 0. */
  readonly endsOnCtrlC?: (options: Options) => boolean;
  /** Answers the exit status. */
  readonly run: (call: Call<Options>, args: readonly string[]) => Promise<number>;
}

export type LocalSocket = (configFile: string | undefined) => string | Promise<string>;

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
  readonly #localSocket: LocalSocket;

  constructor(io: CliIo, json: boolean, localSocket: LocalSocket) {
    this.io = io;
    this.out = new Output(io.stdout);
    this.err = new Output(io.stderr);
    this.#json = json;
    this.#localSocket = localSocket;
  }

  /** Adds the options that every command of the service takes, and runs it. */
  remote<Options extends object>(command: Command, spec: CommandSpec<Options>): Command {
    return withConnection(command).action(async (...all: unknown[]) => {
      const args = all.slice(0, -2).filter((arg) => typeof arg === 'string');
      this.status = await this.#run(command.opts<CommonOptions & Options>(), spec, args);
    });
  }

  async #run<Options>(options: CommonOptions & Options, spec: CommandSpec<Options>, args: string[]): Promise<number> {
    const stop = new AbortController();
    const unhook = this.#hook(stop);
    let service: Service | undefined;
    const { io, out, err } = this;
    const settings = { options, env: io.env, localSocket: this.#localSocket };
    const find = async (): Promise<Service> => {
      service ??= await Service.find(settings);
      return service;
    };
    const call = { io, out, err, json: options.json === true, options, stop: stop.signal, timeoutMs: options.timeout };
    try {
      return await spec.run({ ...call, service: find }, args);
    } catch (error) {
      return endStatus(error, stop.signal, spec.endsOnCtrlC?.(options) === true, phrase(spec, args));
    } finally {
      unhook();
      service?.drop();
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
      await this.err.write(this.#json ? failureJson(failure) : failureLine(failure));
    } catch {
      // Nobody reads standard error: the status says it alone.
    }
    return failure.status;
  }

  async release(): Promise<void> {
    await Promise.all([this.out.flush(), this.err.flush()]);
    this.out.release();
    this.err.release();
  }
}

function phrase<Options>(spec: CommandSpec<Options>, args: readonly string[]): string {
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

function withConnection(command: Command): Command {
  return command
    .optionsGroup('Output:')
    .option('--json', 'print JSON for scripts; errors too')
    .optionsGroup('Connection (default: the socket of the service on this machine):')
    .option('--socket <path>', 'Unix socket of the service (LINESIDE_SOCKET)')
    .option('--config <file>', 'use the socket that this configuration file names')
    .option('--host <host[:port]>', 'service on another machine (LINESIDE_HOST); TLS unless it is loopback')
    .option('--tls', 'use TLS on loopback too')
    .option('--plaintext', 'no TLS: only where the service has insecure = true')
    .option('--ca <file>', 'certificate of the authority to trust (LINESIDE_CA)')
    .option('--token-file <file>', 'file that holds the token (LINESIDE_TOKEN_FILE)')
    .option('--cert <file>', 'client certificate, with --key')
    .option('--key <file>', 'key of the client certificate')
    .option('--server-name <name>', 'name in the certificate of the service, when it is not the host')
    .addOption(
      command
        .createOption('--timeout <seconds>', 'give up a call after so long')
        .argParser(secondsAsMs(longestTimeoutSeconds))
        .default(usualTimeoutSeconds * 1000, String(usualTimeoutSeconds)),
    );
}
