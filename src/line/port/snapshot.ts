/** The state of the line as others see it. */
import type { Counters } from './counters.ts';
import type { LineSnapshot, LineState } from './face.ts';
import type { Device } from './linux/device.ts';
import type { PacketBuffer } from './packets.ts';
import type { State, Target } from './state.ts';
import type { Traffic } from './traffic.ts';

export interface Observed {
  readonly state: State;
  readonly ageMs: number;
  readonly current: { readonly device: Device; readonly traffic: Traffic; readonly target: Target } | undefined;
  readonly counters: Counters;
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

function waiting(packets: PacketBuffer | undefined, traffic: Traffic | undefined) {
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
