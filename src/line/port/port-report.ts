/**
 * What others see of the port: its status, and the operator's log, which has one line for each change that matters, not one
 * for each attempt.
 */

import type { Logger } from '../../shared/base/logger.ts';
import type { LineCounters, LineSnapshot, LineState } from './line.ts';
import type { Device } from './linux/tty.ts';
import type { PacketBuffer } from './receive-buffer.ts';
import type { State, Target } from './state.ts';
import type { Traffic } from './traffic.ts';

export function reportStep(logger: Logger, before: State, now: State, device: string): void {
  if (before.kind === now.kind) return;
  if (now.kind === 'open') {
    const { portName, baudRate } = now.target.config;
    logger.info('port open', { port: portName, device, baud: baudRate });
  } else if (now.kind === 'lost') {
    const what = lostText(before, now.attempt);
    if (what !== undefined) logger.warn(what, { port: now.target.config.portName, error: now.error.message });
  } else if (now.kind === 'closed') {
    logger.info('port closed');
  }
}

/** undefined: an attempt like those before it. */
function lostText(before: State, attempt: number): string | undefined {
  if (before.kind !== 'reopening') return 'port lost, waiting for it to return';
  return attempt === 1 ? 'port cannot be opened yet, trying again' : undefined;
}

interface Observed {
  readonly state: State;
  readonly ageMs: number;
  readonly current: { readonly device: Device; readonly traffic: Traffic; readonly target: Target } | undefined;
  readonly counters: LineCounters;
  readonly packets: PacketBuffer | undefined;
}

export function snapshotOf({ state, ageMs, current, counters, packets }: Observed): LineSnapshot {
  return {
    state: stateShown(state, current !== undefined),
    stateAgeMs: ageMs,
    requested: current?.target.config ?? ('target' in state ? state.target.config : undefined),
    effective: current?.device.effective,
    devicePath: current?.device.path ?? '',
    error: 'error' in state ? state.error.message : '',
    kernel: current?.device.kernelCounters(),
    counters: { ...counters, ...waiting(packets, current?.traffic) },
  };
}

function waiting(packets: PacketBuffer | undefined, traffic: Traffic | undefined): Partial<LineCounters> {
  return {
    rxBufferedPackets: packets?.packets ?? 0,
    rxBufferedBytes: packets?.bytes ?? 0,
    txQueuedPackets: traffic?.queuedPackets ?? 0,
    txQueuedBytes: traffic?.queuedBytes ?? 0,
  };
}

/** While another port is being tried the old one is still open; and opening is one word for both of its ways. */
function stateShown(state: State, connected: boolean): LineState {
  if (state.kind === 'opening' && connected) return 'open';
  return state.kind === 'restoring' ? 'opening' : state.kind;
}
