/** Line settings as people write them: 115200,8N1. The numbers are those of serial.Parity and serial.StopBits. Pure. */
import { framing, parities, stopBits } from '../../shared/proto/line-status.ts';
import { type CliFailure, usageFailure } from '../failure.ts';

export interface Settings {
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: number;
  readonly stopBits: number;
}

/** What nearly every device speaks when its manual is silent: 115200,8N1. */
export const usualSettings: Settings = { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0 };

/** "9600", "9600,7E1", "9600-8N1.5" and "9600 8N2". */
export function parseSettings(text: string): Partial<Settings> {
  const match = /^(\d+)(?:[,\s/:-](\d)([A-Za-z])([\d.]+))?$/.exec(text.trim());
  if (match === null) throw refused(text, 'they are a speed, or a speed and three parts');
  const [, speed = '', bits, letter = '', stops = ''] = match;
  if (speed.length > 9) throw refused(text, `${speed} baud is too fast`);
  const baudRate = Number(speed);
  if (bits === undefined) return { baudRate };
  const parity = parities.findIndex((name) => name.startsWith(letter.toLowerCase()));
  const stopped = stopBits.findIndex((count) => String(count) === stops);
  if (!/[5-8]/.test(bits)) throw refused(text, `data bits are 5, 6, 7 or 8, not ${bits}`);
  if (parity < 0) throw refused(text, `the parity is N, E, O, M or S, not ${letter}`);
  if (stopped < 0) throw refused(text, `stop bits are 1, 1.5 or 2, not ${stops}`);
  return { baudRate, dataBits: Number(bits), parity, stopBits: stopped };
}

function refused(text: string, why: string): CliFailure {
  return usageFailure(`"${text}" are not line settings: ${why}`, 'Write them like 115200,8N1.');
}

/** 115200,8N1 */
export function settingsText(line: Settings): string {
  const { parity, stopBits } = framing(line);
  return `${line.baudRate},${line.dataBits}${parity.charAt(0).toUpperCase()}${stopBits}`;
}

/** Bits on the line for one byte: a start bit, the data, the parity bit if any, the stop bits rounded up. */
export function bitsPerByte(line: Omit<Settings, 'baudRate'>): number {
  return 1 + line.dataBits + (parities[line.parity] === 'none' ? 0 : 1) + (stopBits[line.stopBits] === 1 ? 1 : 2);
}
