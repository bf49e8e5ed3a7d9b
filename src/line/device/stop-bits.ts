/** Where one and a half stop bits exist. Pure. */
import { type LineSettings, StopBits } from '../settings.ts';
import type { PortToOpen } from './device.ts';

/**
 * Drivers whose hardware sends 1.5 stop bits for CSTOPB with 5 data bits: the 16550 (its line control register has no
 * other meaning for it) under the names of its glue drivers, and two USB chips made after it.
 */
const oneAndAHalf = /^(serial|serial8250|8250.*|of_serial|dw-apb-uart|bcm2835-aux-uart|pl2303|ch341.*)$/;

export function hasOnePointFive(driver: string): boolean {
  return oneAndAHalf.test(driver);
}

/** Why these settings cannot be had on this port, known before anything is touched; undefined: try. */
export function stopBitsRefused(port: PortToOpen, settings: LineSettings): string | undefined {
  const here = hasOnePointFive(port.driver);
  if (settings.stopBits === StopBits.onePointFive) {
    if (settings.dataBits !== 5) return `1.5 stop bits exist only with 5 data bits, not with ${settings.dataBits}`;
    if (port.isPty || here) return undefined;
    return `stop bits: asked 1.5, which the driver ${port.driver || '(unknown)'} does not have`;
  }
  if (settings.stopBits === StopBits.two && settings.dataBits === 5 && here)
    return `stop bits: asked 2, but with 5 data bits ${port.driver} hardware sends 1.5: ask for 1.5 or 1`;
  return undefined;
}
