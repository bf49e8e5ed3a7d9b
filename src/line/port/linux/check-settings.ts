/** What a port's driver cannot do, known before the port is touched: today the stop bits. Pure. */
import { LinesideError } from '../../../shared/base/errors.ts';
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

/** Throws SETTING_REFUSED for what this port cannot do, saying why. */
export function checkSettings(port: PortToOpen, settings: LineSettings): void {
  const fault = stopBitsFault(port, settings);
  if (fault !== undefined) throw new LinesideError('SETTING_REFUSED', `stop_bits: ${fault}`);
}

function stopBitsFault(port: PortToOpen, settings: LineSettings): string | undefined {
  const here = hasOnePointFive(port.driver);
  if (settings.stopBits === StopBits.onePointFive) {
    if (settings.dataBits !== 5) return `1.5 exists only with 5 data bits, asked ${settings.dataBits}`;
    if (port.isPty || here) return undefined;
    return `asked 1.5, which the driver of ${port.devicePath} (${port.driver || 'unknown'}) does not have`;
  }
  if (settings.stopBits === StopBits.two && settings.dataBits === 5 && here)
    return `asked 2, but with 5 data bits this hardware (${port.driver}) sends 1.5: ask for 1.5 or 1`;
  return undefined;
}
