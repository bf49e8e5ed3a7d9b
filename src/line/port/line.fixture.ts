/** Ports and their configuration, for tests of what is done with them. */
import type { Port } from './inventory.ts';
import type { LineConfig } from './line-config.ts';

export function portNamed(portName: string): Port {
  const none = { description: '', hardwareId: '', driver: '', isPty: false, links: [] };
  return { ...none, portName, devicePath: portName, stableId: portName };
}

/** 9600 8N1. */
export function configOf(portName: string, changes: Partial<LineConfig> = {}): LineConfig {
  return { portName, baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0, flowControl: 0, ...changes };
}
