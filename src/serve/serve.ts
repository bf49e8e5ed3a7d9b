/** `lineside serve`: runs the service, or one process of it, until a signal stops it. */
import { resolve as absolute } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../shared/base/clock.ts';
import { asLinesideError, LinesideError, messageOf } from '../shared/base/errors.ts';
import { createLogger, type Logger } from '../shared/base/logger.ts';
import { type Handed, type Loaded, load } from '../shared/config/load.ts';
import { SystemdReport } from '../shared/host/health-report.ts';
import { createNotifier } from '../shared/host/notify.ts';
import { type ServiceProcess, type ServiceStart, type StopStep, stopAll } from '../shared/host/service-process.ts';
import type { HubChild } from './hub-child.ts';
import { hubReloader, lineReloader, type Reloaded } from './reload.ts';

const EXIT_OK = 0;
const EXIT_FAILED = 1;
/** Bad arguments or configuration: restarting does not help. */
const EXIT_USAGE = 2;

/** Limit of a hub's stop beside outbox.stop_grace_ms: its connections, its worker, a last checkpoint on a slow card. */
const HUB_STOP_MS = 10_000;
/** The steps inside have limits of their own, which are shorter. */
const OUTER_LIMIT_MS = 120_000;
/** All steps of a stop together; outbox.stop_grace_ms comes on top. */
const STOP_MS = 45_000;
/**
 * What a burst left free in the C library's heap stays resident while anything lies above it: 192 entries of 32 KiB left the
 * line with 20 MB, of which 13 are given back. Takes 0.05 ms, and 1.5 ms for those 13 MB (a PC).
 */
const TRIM_EVERY_MS = 60_000;

const USAGE = `usage: lineside serve [--config FILE] [--role line|hub]

Runs the service in the foreground until SIGTERM or SIGINT. FILE is TOML (default /etc/lineside/lineside.toml); every
key has an override in the environment, LINESIDE_SECTION_KEY. Exit status 2: bad arguments or configuration.

  --role line   the serial port, its log and gRPC only
  --role hub    reference data, outbox, Kafka and HTTP only

SIGHUP reloads the configuration (systemctl reload lineside); in a terminal it ends the service, as SIGTERM does.

Without a role it runs the line, and the hub as a process of its own, which is started again when it dies.
`;

type Role = 'line' | 'hub' | 'both';

interface Asked {
  readonly loaded: Loaded;
  /** Reads it again. Throws CONFIG_INVALID. */
  readonly read: () => Loaded;
  readonly role: Role;
  /** The hub's own command, if this process starts one. */
  readonly hubCommand: readonly [string, ...string[]] | undefined;
}

/** A process of the service once it is up: what to write of it, how to stop it. */
interface Running extends Omit<ServiceProcess, 'stop'> {
  readonly ready: string;
  readonly steps: readonly StopStep[];
  readonly stopMs: number;
  readonly reload: () => Promise<Reloaded>;
  /** After the stop, where threads may hang: ends the process. */
  readonly end?: (status: number, tookMs: number) => Promise<void>;
}

export async function serve(argv: readonly string[], version: string): Promise<number> {
  // The reader of a pipe may be gone; that is no reason to stop.
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
  const { nameThread, trimHeap } = await import('../shared/base/libc.ts');
  nameThread(asked.role === 'hub' ? 'lineside-hub' : 'lineside-line');
  for (const warning of asked.loaded.warnings) logger.warn(`${who}configuration`, { warning });
  for (const key of asked.loaded.unused) logger.info(`${who}listens on the sockets that systemd opened, not on ${key}`);
  for (const socket of asked.loaded.unserved) logger.warn(`${who}does not serve a socket of systemd`, { socket });
  // Keeps the process too: waiting for a signal alone does not.
  const trims = setInterval(trimHeap, TRIM_EVERY_MS);
  let report: SystemdReport | undefined;
  try {
    const { stopped, stop: askToStop } = stopAsked(logger, who);
    const hangups = heardHangups(askToStop);
    const notifier = await createNotifier(process.env, logger);
    const systemd = new SystemdReport({ notifier, clock: systemClock, logger });
    report = systemd;
    const ending = new AbortController();
    void stopped.then(() => ending.abort());
    const stage = (text: string): void => systemd.stage(text);
    const running = await start({ asked, logger, version, stage, ending: ending.signal, restart: askToStop });
    const { ready, addresses, steps, end } = running;
    logger.info(ready, { version, listen: addresses.join(' ') });
    await systemd.up(running.healthReport);
    hangups.onEach(async () => {
      const endsFor = await reload(running, systemd, logger, who);
      if (endsFor !== '') askToStop(endsFor);
    });
    const why = await stopped;
    logger.info(`${who}stopping`, { why });
    systemd.stopping(running.stopMs);
    const fromMs = systemClock.monoMs();
    const status = await stop(steps, logger, who);
    await end?.(status, systemClock.monoMs() - fromMs);
    return status;
  } catch (error) {
    const { message, hint, code } = asLinesideError(error);
    if (code === 'SHUTTING_DOWN') {
      logger.info(`${who}stopped`, { why: message });
      return EXIT_OK;
    }
    report?.failed(`cannot start: ${message}`);
    logger.error(`${who}cannot start`, { error: message, ...(hint === '' ? {} : { hint }) });
    return code === 'CONFIG_INVALID' ? EXIT_USAGE : EXIT_FAILED;
  } finally {
    clearInterval(trims);
  }
}

async function configure(argv: readonly string[]): Promise<Asked | number> {
  try {
    const options = {
      config: { type: 'string' },
      role: { type: 'string' },
      // Only marks its command line: see hub-child.ts.
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
    const read = (): Loaded => load(values.config, process.env, role === 'both' ? 'serve' : role, handed);
    const loaded = read();
    const hubCommand = role === 'both' ? await ownHub(values.config) : undefined;
    return { loaded, read, role, hubCommand };
  } catch (error) {
    const { message, hint } = asLinesideError(error);
    process.stderr.write(`lineside serve: ${message}${hint === '' ? '' : ` (${hint})`}\n`);
    return EXIT_USAGE;
  }
}

/** The sockets that systemd opened for this process, if it did: those of a hub's child are opened by the hub itself. */
async function handedOver(role: Role): Promise<Handed> {
  if (process.env.LISTEN_FDS === undefined) return {};
  const { inheritedSockets, listenersFor } = await import('../shared/host/systemd-sockets.ts');
  return listenersFor(await inheritedSockets(process.env), role === 'hub' ? ['http'] : ['grpc']);
}

function roleOf(given: string | undefined): Role {
  if (given === undefined) return 'both';
  if (given === 'line' || given === 'hub') return given;
  throw new LinesideError('INVALID_ARGUMENT', `no such role: "${given}"`, { hint: 'roles: line, hub' });
}

/** This program again, by the same Node with the same options. */
async function ownHub(configFile: string | undefined): Promise<[string, ...string[]]> {
  const { CHILD_ARGUMENTS } = await import('./hub-child.ts');
  const main = process.argv[1] ?? '';
  const config = configFile === undefined ? [] : ['--config', absolute(configFile)];
  return [process.execPath, ...process.execArgv, main, ...CHILD_ARGUMENTS, ...config];
}

interface Start extends Omit<ServiceStart, 'config' | 'configurationRefused' | 'restartNeeded'> {
  readonly asked: Asked;
}

/** Each process loads its own half only. */
function start(how: Start): Promise<Running> {
  return how.asked.role === 'hub' ? startHub(how) : startLine(how);
}

async function startHub({ asked, ...how }: Start): Promise<Running> {
  const { config } = asked.loaded;
  const { startHub: run } = await import('../hub/hub-process.ts');
  const reloader = hubReloader({ ...asked, logger: how.logger });
  const hub = await run({
    ...how,
    config,
    configurationRefused: reloader.refused,
    restartNeeded: reloader.restartNeeded,
  });
  const { addresses, healthReport } = hub;
  const step: StopStep = { what: 'hub', stop: () => hub.stop(), limitMs: OUTER_LIMIT_MS };
  const stopMs = config.outbox.stopGraceMs + STOP_MS;
  return { ready: 'hub ready', addresses, steps: [step], healthReport, stopMs, reload: reloader.reload };
}

async function startLine({ asked, ...how }: Start): Promise<Running> {
  const { config } = asked.loaded;
  const { startLine: run, endThreads } = await import('../line/line-process.ts');
  const reloader = lineReloader({ ...asked, logger: how.logger }, (changed) => line.configure(changed));
  const line = await run({
    ...how,
    config,
    configurationRefused: reloader.refused,
    restartNeeded: reloader.restartNeeded,
  });
  const { addresses, healthReport } = line;
  const steps: StopStep[] = [{ what: 'line', stop: () => line.stop(), limitMs: OUTER_LIMIT_MS }];
  const hub = await startHubChild(asked, how.logger);
  if (hub !== undefined) steps.unshift({ what: 'hub', stop: () => hub.stop(), limitMs: OUTER_LIMIT_MS });
  const stopMs = STOP_MS + (hub === undefined ? 0 : config.outbox.stopGraceMs + HUB_STOP_MS);
  const reload = async (): Promise<Reloaded> => {
    const reloaded = await reloader.reload();
    // A faulty file was judged for both: the hub would only say it again.
    if (reloaded.isGood) hub?.reload();
    return reloaded;
  };
  return { ready: 'ready', addresses, steps, healthReport, stopMs, reload, end: endThreads };
}

/** Once the line is up: a second service in the same place has failed by then, and touches no hub. */
async function startHubChild({ loaded, hubCommand: command }: Asked, logger: Logger): Promise<HubChild | undefined> {
  if (command === undefined) return undefined;
  const { HubChild } = await import('./hub-child.ts');
  const { data, outbox } = loaded.config;
  const stopLimitMs = outbox.stopGraceMs + HUB_STOP_MS;
  const hub = new HubChild({ command, dataDir: data.dir, stopLimitMs, clock: systemClock, logger });
  hub.start();
  return hub;
}

/** Why the process is to end; '': it continues. Either way systemd has been notified that the reload is complete. */
async function reload(running: Running, report: SystemdReport, logger: Logger, who: string): Promise<string> {
  report.reloading();
  try {
    const { remark, endsFor } = await running.reload();
    await report.reloaded(remark);
    return endsFor;
  } catch (error) {
    logger.error(`${who}the configuration could not be reloaded`, { error: messageOf(error) });
    await report.reloaded('');
    return '';
  }
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

// Signals: to stop, or to reload the configuration.

/** SIGHUP, also while the start is under way: it is followed then when that is done. One reload at a time. */
function heardHangups(askToStop: (why: string) => void): { onEach(call: () => Promise<void>): void } {
  // A terminal that is closed is no wish for another configuration.
  if (process.stderr.isTTY) {
    process.once('SIGHUP', () => askToStop('SIGHUP'));
    return { onEach() {} };
  }
  let isAsked = false;
  let calling: Promise<void> | undefined;
  let call: (() => Promise<void>) | undefined;
  const next = (): void => {
    if (!isAsked || call === undefined || calling !== undefined) return;
    isAsked = false;
    calling = call().finally(() => {
      calling = undefined;
      next();
    });
  };
  process.on('SIGHUP', () => {
    isAsked = true;
    next();
  });
  return {
    onEach(given) {
      call = given;
      next();
    },
  };
}

/** `stopped`: with the first signal, or with an error that nothing caught; a second signal kills. */
function stopAsked(logger: Logger, who: string) {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop(signal));
  // Its state is not known now: commit what there is, then let systemd restart it.
  process.once('uncaughtException', (error) => {
    logger.error(`${who}unforeseen failure, stopping`, { error: error.stack ?? messageOf(error) });
    process.exitCode = 1;
    stop('unforeseen failure');
  });
  return { stopped, stop };
}
