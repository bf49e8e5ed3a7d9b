/** `lineside serve`: runs the service, or one process of it, until a signal asks it to stop. */
import { resolve as absolute } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from './base/clock.ts';
import { asLinesideError, LinesideError, messageOf } from './base/errors.ts';
import { createLogger, type Logger } from './base/logger.ts';
import { type StopStep, stopAll } from './base/stop-all.ts';
import type { Config } from './config/config.ts';
import { type Handed, load } from './config/load.ts';

const EXIT_OK = 0;
const EXIT_FAILED = 1;
/** Bad arguments or configuration: restarting does not help. */
const EXIT_USAGE = 2;

/** What a hub may take to stop beside outbox.drain_ms: its connections, its worker, a last checkpoint on a slow card. */
const HUB_STOP_MS = 10_000;
/** The steps inside have limits of their own, which are shorter. */
const OUTER_LIMIT_MS = 120_000;
/** The longest that a timer can be: 25 days. */
const LONG_MS = 2_147_483_647;

const USAGE = `usage: lineside serve [--config FILE] [--role line|hub]

Runs the service in the foreground until SIGTERM or SIGINT. FILE is TOML (default /etc/lineside/lineside.toml); every
key has an override in the environment, LINESIDE_SECTION_KEY. Exit status 2: bad arguments or configuration.

  --role line   the serial port, its log and gRPC only
  --role hub    reference data, outbox, Kafka and HTTP only

Without a role it runs the line, and the hub as a process of its own, which is started again when it dies.
`;

type Role = 'line' | 'hub' | 'both';

interface Asked {
  readonly config: Config;
  readonly role: Role;
  /** Started by `lineside serve`: it may be taken for an orphan one day. */
  readonly isChild: boolean;
  /** The hub's own command, where this process starts one. */
  readonly hubCommand: readonly [string, ...string[]];
  /** Keys that were set and count for nothing. */
  readonly unused: readonly string[];
}

/** A process of the service once it is up: what to write of it, how to stop it. */
interface Running {
  readonly ready: string;
  readonly addresses: readonly string[];
  readonly steps: readonly StopStep[];
  /** After the stop, where threads may hang: ends the process. */
  readonly end?: (status: number, tookMs: number) => Promise<void>;
}

export async function serve(argv: readonly string[], version: string): Promise<number> {
  // Who read it may be gone (a pipe); that is no reason to stop.
  process.stderr.on('error', () => undefined);
  const logger = createLogger({
    write: (line) => void process.stderr.write(line),
    journal: process.env.JOURNAL_STREAM !== undefined,
    debug: process.env.LINESIDE_DEBUG !== undefined,
    wallMs: () => systemClock.wallMs(),
  });
  const asked = await configure(argv);
  if (typeof asked === 'number') return asked;
  const who = asked.role === 'hub' ? 'hub ' : '';
  for (const key of asked.unused) logger.info(`${who}listens on the sockets that systemd opened, not on ${key}`);
  // Waiting for a signal alone does not keep a process.
  const held = setInterval(() => undefined, LONG_MS);
  try {
    const stopped = stopAsked(logger, who);
    const { ready, addresses, steps, end } = await start(asked, logger, version);
    logger.info(ready, { version, listen: addresses.join(' ') });
    const why = await stopped;
    logger.info(`${who}stopping`, { why });
    const fromMs = systemClock.monoMs();
    const status = await stop(steps, logger, who);
    await end?.(status, systemClock.monoMs() - fromMs);
    return status;
  } catch (error) {
    const { message, hint, code } = asLinesideError(error);
    logger.error(`${who}cannot start`, { error: message, ...(hint === '' ? {} : { hint }) });
    return code === 'CONFIG_INVALID' ? EXIT_USAGE : EXIT_FAILED;
  } finally {
    clearInterval(held);
  }
}

async function configure(argv: readonly string[]): Promise<Asked | number> {
  try {
    const options = {
      config: { type: 'string' },
      role: { type: 'string' },
      child: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    } as const;
    const { values } = parseArgs({ args: [...argv], options });
    if (values.help === true) {
      process.stdout.write(USAGE);
      return EXIT_OK;
    }
    const role = roleOf(values.role);
    const handed = await handedOver(role);
    const { config, unused } = load(values.config, process.env, role === 'both' ? 'serve' : role, handed);
    const hubCommand = role === 'both' ? await ownHub(values.config) : ([''] as const);
    return { config, role, isChild: values.child === true, hubCommand, unused };
  } catch (error) {
    const { message, hint } = asLinesideError(error);
    process.stderr.write(`lineside serve: ${message}${hint === '' ? '' : ` (${hint})`}\n`);
    return EXIT_USAGE;
  }
}

/** The sockets that systemd opened for this process, if it did: those of a hub's child are opened by the hub itself. */
async function handedOver(role: Role): Promise<Handed> {
  if (process.env.LISTEN_FDS === undefined) return {};
  const { inheritedSockets, listenersFor } = await import('./host/inherited.ts');
  return listenersFor(await inheritedSockets(process.env), role === 'hub' ? ['http'] : ['grpc']);
}

function roleOf(given: string | undefined): Role {
  if (given === undefined) return 'both';
  if (given === 'line' || given === 'hub') return given;
  throw new LinesideError('INVALID_ARGUMENT', `no such role: "${given}"`, { hint: 'roles: line, hub' });
}

/** This program again, by the same Node with the same options. */
async function ownHub(configFile: string | undefined): Promise<Asked['hubCommand']> {
  const { CHILD_ARGUMENTS } = await import('./hub-orphan.ts');
  const main = process.argv[1] ?? '';
  const config = configFile === undefined ? [] : ['--config', absolute(configFile)];
  return [process.execPath, ...process.execArgv, main, ...CHILD_ARGUMENTS, ...config];
}

/** Each process loads its own half only. */
async function start(asked: Asked, logger: Logger, version: string): Promise<Running> {
  const { config, role } = asked;
  if (role === 'hub') {
    const { startHub } = await import('./hub-process.ts');
    const hub = await startHub({ config, logger, version, isChild: asked.isChild });
    const step: StopStep = { what: 'hub', stop: () => hub.stop(), limitMs: OUTER_LIMIT_MS };
    return { ready: 'hub ready', addresses: hub.addresses, steps: [step] };
  }
  const { startLine, endThreads } = await import('./line-process.ts');
  const line = await startLine(config, logger, version);
  const steps: StopStep[] = [{ what: 'line', stop: () => line.stop(), limitMs: OUTER_LIMIT_MS }];
  if (role === 'both') steps.unshift(await startHubChild(asked, logger));
  return { ready: 'ready', addresses: line.addresses, steps, end: endThreads };
}

/** Once the line is up: a second service in the same place has failed by then, and touches nobody's hub. */
async function startHubChild({ config, hubCommand }: Asked, logger: Logger): Promise<StopStep> {
  const { HubChild } = await import('./hub-child.ts');
  const stopLimitMs = config.outbox.drainMs + HUB_STOP_MS;
  const { runtimeDir } = config.data;
  const hub = new HubChild({ command: hubCommand, runtimeDir, stopLimitMs, clock: systemClock, logger });
  hub.start();
  return { what: 'hub', stop: () => hub.stop(), limitMs: OUTER_LIMIT_MS };
}

/** Resolves with the first signal, or with what went wrong where nobody was there to catch it; a second signal kills. */
function stopAsked(logger: Logger, who: string): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal));
    // Nobody knows what state it is in now: commit what there is, then let systemd start it anew.
    process.once('uncaughtException', (error) => {
      logger.error(`${who}unforeseen failure, stopping`, { error: error.stack ?? messageOf(error) });
      process.exitCode = EXIT_FAILED;
      resolve('unforeseen failure');
    });
  });
}

async function stop(steps: readonly StopStep[], logger: Logger, who: string): Promise<number> {
  const failed = process.exitCode === EXIT_FAILED;
  try {
    await stopAll(steps);
    logger.info(`${who}stopped`);
    return failed ? EXIT_FAILED : EXIT_OK;
  } catch (error) {
    logger.error(`${who}stopped with failures`, { error: messageOf(error) });
    return EXIT_FAILED;
  }
}
