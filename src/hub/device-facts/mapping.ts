/** What the line says of itself, as the records of the device's own dictionaries. Pure. */

import { sameJson } from '../../shared/base/same-json.ts';
import { parities, stopBits } from '../../shared/proto/line-status.ts';
import type { serial } from '../../shared/proto/services.ts';
import type { JsonObject } from '../outbox/event.ts';

export const PORTS = 'device.ports';
export const LINE = 'device.line';
/** The one record of device.line. */
export const LINE_KEY = 'line';

/** Data by business key. */
export type Wanted = ReadonlyMap<string, JsonObject>;

export type DeviceFields = Pick<serial.SerialDevice, 'portName' | 'description' | 'hardwareId'>;
type ConfigFields = Omit<serial.SerialConfig, 'toJSON'>;

/** What is read of lineside.v1.LineStatus. */
export interface StatusFields {
  /** lineside.v1.PortState */
  readonly portState: number;
  readonly requested?: ConfigFields | null;
  readonly portError: string;
  readonly currentPortName: string;
}

type LineState = 'open' | 'closed' | 'lost' | 'unknown';

/**
 * By lineside.v1.PortState. Steps that last for moments are no facts: a port that opens is not open yet, one that is
 * being reopened every few seconds is still lost.
 */
const states: readonly LineState[] = ['unknown', 'closed', 'closed', 'open', 'lost', 'lost', 'closed'];

export function portRecords(devices: readonly DeviceFields[], deviceId: string): Wanted {
  return new Map(
    devices.map(({ portName, description, hardwareId }) => [portName, { deviceId, portName, description, hardwareId }]),
  );
}

export function lineRecord(status: StatusFields, deviceId: string): JsonObject {
  const { portState, requested, portError, currentPortName } = status;
  const state = states[portState] ?? 'unknown';
  const portName = currentPortName === '' ? (requested?.portName ?? '') : currentPortName;
  return { deviceId, state, portName, config: requested == null ? null : configOf(requested), error: portError };
}

/** Field by field: what is 0 in a decoded message stands on its prototype, and a spread would leave it out. */
function configOf(config: ConfigFields): JsonObject {
  const { portName, baudRate, dataBits, parity, packetSize } = config;
  return {
    portName,
    baudRate,
    dataBits,
    parity: parities[parity] ?? 'unknown',
    stopBits: String(stopBits[config.stopBits] ?? 'unknown'),
    packetSize,
  };
}

/** What stays known of a line that does not answer. */
export function unknownLine(known: JsonObject | undefined, deviceId: string): JsonObject {
  const { portName = '', config = null } = known ?? {};
  return { deviceId, state: 'unknown', portName, config, error: 'the line does not answer' };
}

/**
 * While a port stays lost, the words for it go back and forth with each try to reopen it: what was said first stays, or
 * an unplugged adapter would write a change every few seconds for weeks.
 */
export function steady(wanted: JsonObject, known: JsonObject | undefined): JsonObject {
  const stillLost = wanted['state'] === 'lost' && known?.['state'] === 'lost';
  return stillLost && known['error'] !== undefined ? { ...wanted, error: known['error'] } : wanted;
}

/** An open record as it is now. */
export interface Known {
  readonly data: JsonObject;
  readonly version: number;
}

export type FactChange =
  | { readonly kind: 'create'; readonly key: string; readonly data: JsonObject }
  | { readonly kind: 'update'; readonly key: string; readonly data: JsonObject; readonly version: number }
  | { readonly kind: 'close'; readonly key: string; readonly version: number };

/** What has to be written so that a dictionary holds what is wanted. Only what differs; first what goes, so that a name that moved is free. */
export function changesTo(wanted: Wanted, known: ReadonlyMap<string, Known>): FactChange[] {
  const changes: FactChange[] = [];
  for (const [key, { version }] of known) if (!wanted.has(key)) changes.push({ kind: 'close', key, version });
  for (const [key, data] of wanted) {
    const now = known.get(key);
    if (now === undefined) changes.push({ kind: 'create', key, data });
    else if (!sameJson(now.data, data)) changes.push({ kind: 'update', key, data, version: now.version });
  }
  return changes;
}
