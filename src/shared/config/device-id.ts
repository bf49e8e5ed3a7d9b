/** The name of this box where the configuration gives it none. */
import { createHash } from 'node:crypto';
import { objectIn } from '../base/json.ts';

/** 64 bits: enough to distinguish the boxes of any fleet. */
const DIGITS = 16;

/**
 * From the machine id, hashed, since that id is not to leave the machine (machine-id(5)); from the host name where
 * there is none, or not yet (an image's first boot: "uninitialized").
 */
export function deviceIdOf(machineId: string, hostname: string): string {
  const id = machineId.trim();
  if (/^[0-9a-f]{32}$/.test(id))
    return `lineside-${createHash('sha256').update(`lineside${id}`).digest('hex').slice(0, DIGITS)}`;
  const name = hostname.replaceAll(/[^A-Za-z0-9._-]/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  return name === '' ? 'lineside' : name.slice(0, 128);
}

/** As configuration keys have it: device.id. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function isDeviceId(text: string): boolean {
  return ID.test(text);
}

/** The name in the text of identity.json, which a box that was restored on another card keeps; undefined: there is none. */
export function deviceIdIn(identity: string | undefined): string | undefined {
  const { deviceId } = objectIn(identity ?? '') ?? {};
  return typeof deviceId === 'string' && isDeviceId(deviceId) ? deviceId : undefined;
}
