/** Composition root of the line: builds its parts from one Config, starts them in order and stops them in reverse. */
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { startGrpcServers } from './api/grpc/server.ts';
import { systemClock } from './base/clock.ts';
import { messageOf } from './base/errors.ts';
import type { Logger } from './base/logger.ts';
import { type StopStep, stopAll } from './base/stop-all.ts';
import type { Config } from './config/config.ts';
import { createClockSync } from './host/clock-sync.ts';
import { checkSettings } from './line/device/check-settings.ts';
import { openTty } from './line/device/tty-device.ts';
import { createInventory } from './line/inventory.ts';
import { LineMemory } from './line/memory.ts';
import { PortOwner } from './line/owner.ts';
import { SIMULATED_DESCRIPTION, startSimulatedLine } from './line/simulated/simulated-line.ts';
import { openSerialLog } from './log/serial-log.ts';

/** A stop that took longer met a disk or a driver that hangs. */
const LONG_STOP_MS = 3_000;
/** Half of what gRPC gives calls under way: packets on a stalled line fail early enough for their callers to hear of it. */
const SEND_GRACE_MS = 500;

export interface LineProcess {
  /** Where it listens: "unix:/run/lineside/grpc.sock", "127.0.0.1:50051". */
  readonly addresses: readonly string[];
  /** Ends streams with UNAVAILABLE, closes the port, commits the log. Rejects with all failures at once. */
  stop(): Promise<void>;
}

export async function startLine(config: Config, logger: Logger, version: string): Promise<LineProcess> {
  const stops: StopStep[] = [];
  const stop = (): Promise<void> => stopAll(stops.splice(0).reverse());
  try {
    const addresses = await build(config, logger, version, (what, stopIt) => stops.push({ what, stop: stopIt }));
    return { addresses, stop };
  } catch (error) {
    await stop().catch((also: unknown) => logger.error('stopping after a failed start', { error: messageOf(also) }));
    throw error;
  }
}

type OnStop = (what: string, stop: () => Promise<void>) => void;

async function build(config: Config, logger: Logger, version: string, onStop: OnStop): Promise<readonly string[]> {
  const clock = systemClock;
  await mkdir(config.data.runtimeDir, { recursive: true });
  await mkdir(config.data.dir, { recursive: true });
  await chmod(config.data.dir, 0o700);

  const time = createClockSync({ file: config.device.timeSyncFile, clock });
  onStop('time sync', async () => time.stop());
  const log = await openSerialLog({ dir: config.data.dir, ...config.log, clock, logger, time });
  onStop('serial log', () => log.close());

  const simulated = config.serial.simulate
    ? await startSimulatedLine({ runtimeDir: config.data.runtimeDir, clock })
    : undefined;
  if (simulated !== undefined) onStop('simulated line', () => simulated.close());
  const inventory = createInventory({
    extraPorts: [...config.serial.extraPorts, ...(simulated === undefined ? [] : [simulated.portName])],
    descriptions: simulated === undefined ? {} : { [simulated.portName]: SIMULATED_DESCRIPTION },
  });

  const memory = new LineMemory(join(config.data.dir, 'line-state.json'));
  const owner = new PortOwner({
    ...config.serial,
    inventory,
    openDevice: openTty,
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
  onStop('port', stopPort);
  await resume(owner, memory, config, logger);

  const servers = await startGrpcServers({ config, line: owner, log, clock, logger, version });
  onStop('gRPC', async () => {
    // What it rejects with is heard of in the port's own step.
    const grace = clock.timer(SEND_GRACE_MS, () => void stopPort().catch(() => undefined));
    await servers.stop();
    grace.cancel();
  });
  return servers.addresses;
}

async function resume(owner: PortOwner, memory: LineMemory, config: Config, logger: Logger): Promise<void> {
  const { atStart, line } = config.serial;
  if (atStart === 'open' && line !== undefined) return owner.resume(line);
  if (atStart !== 'resume') return;
  try {
    const remembered = await memory.recall();
    if (remembered !== undefined) await owner.resume(remembered);
  } catch (error) {
    logger.error('cannot tell what was open before: starting closed', { error: messageOf(error) });
  }
}

/**
 * After the stop: the process would end only when its last thread does, and one of them may sit in a system call of a
 * disk or a driver for as long as that hangs. `tookMs`: the stop.
 */
export async function endThreads(status: number, tookMs: number): Promise<void> {
  if (tookMs < LONG_STOP_MS) return;
  const { exitNow } = await import('./line/device/libc.ts');
  exitNow(status);
}
