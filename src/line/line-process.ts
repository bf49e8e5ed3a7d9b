/** Composition root of the line: builds its parts from one Config, starts them in order and stops them in reverse. */
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { systemClock } from '../shared/base/clock.ts';
import { holdDataDirectory, holdRuntimeDirectory, makeDirectory } from '../shared/base/data-directory.ts';
import { messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { releaseAfterStartMs } from '../shared/base/memory.ts';
import type { Config } from '../shared/config/config.ts';
import { createClockSync } from '../shared/host/clock-sync.ts';
import type { Check, HealthReport } from '../shared/host/health-report.ts';
import { grpcAnswers, probedAddress } from '../shared/host/probe.ts';
import { type OnStop, type ServiceStart, startParts } from '../shared/host/service-process.ts';
import { lineStatus } from '../shared/host/status-text.ts';
import { startGrpcServers } from './grpc/server.ts';
import { openSerialLog } from './log/serial-log.ts';
import { Inventory } from './port/inventory.ts';
import {
  type DataBits,
  FlowControl,
  type LineConfig,
  Parity,
  type StopBits,
  stopBitsNames,
} from './port/line-config.ts';
import { LineMemory } from './port/line-memory.ts';
import { checkSettings } from './port/linux/termios.ts';
import { PortOwner } from './port/owner.ts';

/** A stop that took longer met a disk or a driver that hangs. */
const LONG_STOP_MS = 3_000;
/** Half of what gRPC gives calls under way: packets on a stalled line fail early enough for their callers to get the answer. */
const SEND_GRACE_MS = 500;

/** Its stop ends streams with UNAVAILABLE, closes the port, commits the log. */
export function startLine(start: ServiceStart) {
  return startParts(start.logger, async (onStop) => {
    const built = await build(start, onStop);
    // Collects garbage before the heap grows, and gives memory back: 100 clients that do not read took 100 MB without it,
    // almost all of it garbage, and 30 MB with it. Reading the log costs a third more CPU time. Tried instead: the hub's limit on the
    // growth of the heap. With 30 percent a live entry for ten readers costs 14.9 us of CPU time instead of 16.0, but 10 readers that
    // do not read a million entries leave 81 MB above Node instead of 72; with 60 percent 100 clients are above their limit.
    // Not before the log's worker has started: with a flag that Node was not built with, V8 takes none of the compiled code of
    // Node's modules, and the worker compiled them all again and kept 1 MB of it.
    setFlagsFromString('--optimize-for-size');
    const { log, owner, servers } = built;
    // Bytes of the port wait in the kernel meanwhile, for 0.1 s.
    const release = systemClock.timer(releaseAfterStartMs, () => void servers.releaseMemory());
    onStop({ what: 'release of memory', stop: async () => release.cancel() });
    /** Takes what needs no new port and no new listener; answers the keys it could not take. */
    const configure = async (changed: Config): Promise<readonly string[]> => {
      const notTaken = await servers.configure(changed);
      log.limit(changed.log);
      owner.limit(changed.serial);
      return notTaken;
    };
    return { addresses: servers.addresses, healthReport: healthReportOf(built), configure };
  });
}

type Built = Awaited<ReturnType<typeof build>>;

function healthReportOf({ log, owner, servers }: Built): HealthReport {
  const checks: Check[] = [{ name: 'the log worker', answers: () => log.answers() }];
  const address = probedAddress(servers.listening);
  if (address !== undefined) checks.push({ name: 'gRPC', answers: () => grpcAnswers(address) });
  const status = async (): Promise<string> =>
    [...servers.faults(), lineStatus({ line: owner.snapshot(), log: await log.status() })].join('; ');
  return { checks, status };
}

async function build(start: ServiceStart, onStop: OnStop) {
  const { config, logger, version, configurationRefused, restartNeeded, stage } = start;
  const clock = systemClock;
  const release = await holdDataDirectory(config.data.dir, 'line');
  onStop({ what: 'lock', stop: async () => release() });
  const { runtimeDir } = config.data;
  await makeDirectory('data.runtime_dir', runtimeDir);
  // systemd, which hands over sockets, starts one line. Otherwise another one could use the directory with data of its own.
  if (!config.grpc.listen.some(({ fd }) => fd !== undefined)) {
    const releaseRuntime = holdRuntimeDirectory(runtimeDir, 'line');
    onStop({ what: 'runtime lock', stop: async () => releaseRuntime() });
  }

  const time = createClockSync({ file: config.device.timeSyncFile, clock });
  onStop({ what: 'time sync', stop: async () => time.stop() });
  stage('opening log.db');
  const log = await openSerialLog({ dir: config.data.dir, ...config.log, clock, logger, time });
  onStop({ what: 'serial log', stop: () => log.close() });

  const simulated = config.serial.simulate
    ? await (await import('./port/simulated/simulated-line.ts')).startSimulatedLine(runtimeDir, clock)
    : undefined;
  if (simulated !== undefined) onStop({ what: 'simulated line', stop: () => simulated.close() });
  const inventory = new Inventory({
    extraPorts: [...config.serial.extraPorts, ...(simulated === undefined ? [] : [simulated.portName])],
    descriptions: simulated === undefined ? {} : { [simulated.portName]: simulated.description },
  });

  const memory = new LineMemory(join(config.data.dir, 'line-state.json'), clock, logger);
  const owner = new PortOwner({
    ...config.serial,
    inventory,
    openDevice: async (port, settings) => (await import('./port/linux/tty.ts')).openTty(port, settings),
    checkSettings,
    log,
    memory,
    clock,
    logger,
  });
  let stopping: Promise<void> | undefined;
  const stopPort = (): Promise<void> => {
    stopping ??= owner.stop();
    return stopping;
  };
  onStop({ what: 'port', stop: stopPort });
  stage('opening the port that was open');
  await resume(owner, memory, config, logger);

  stage('opening gRPC');
  const servers = await startGrpcServers({
    config,
    line: owner,
    log,
    clock,
    logger,
    version,
    configurationRefused,
    restartNeeded,
  });
  const stopServers = async (): Promise<void> => {
    // A failure is reported by the port's own step.
    const grace = clock.timer(SEND_GRACE_MS, () => void stopPort().catch(() => undefined));
    await servers.stop();
    grace.cancel();
  };
  onStop({ what: 'gRPC', stop: stopServers });
  return { log, owner, servers };
}

async function resume(owner: PortOwner, memory: LineMemory, config: Config, logger: Logger): Promise<void> {
  const { atStart, line } = config.serial;
  if (atStart === 'open') return owner.resume(lineAtStart(line));
  if (atStart !== 'resume') return;
  try {
    const remembered = await memory.recall();
    if (remembered !== undefined) await owner.resume(remembered);
  } catch (error) {
    logger.error('cannot read which port was open before: starting closed', { error: messageOf(error) });
  }
}

/** [serial.line], as the contract numbers its settings; its values have been checked. */
function lineAtStart({
  port: portName,
  dataBits,
  parity,
  stopBits,
  flowControl,
  ...line
}: Config['serial']['line']): LineConfig {
  return {
    ...line,
    portName,
    dataBits: dataBits as DataBits,
    parity: Parity[parity],
    stopBits: stopBitsNames.indexOf(stopBits) as StopBits,
    flowControl: FlowControl[flowControl],
  };
}

/**
 * After the stop: the process exits only with its last thread, and a thread may be in a system call of a disk or a driver
 * for as long as that hangs. `tookMs`: duration of the stop.
 */
export async function endThreads(status: number, tookMs: number): Promise<void> {
  if (tookMs < LONG_STOP_MS) return;
  const { exitNow } = await import('../shared/base/libc.ts');
  exitNow(status);
}
