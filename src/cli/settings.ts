/** Line settings as people write them: 115200,8N1. The numbers are those of serial.Parity and serial.StopBits. Pure. */
import { usageFailure } from './failure.ts';

export const parities = { none: 0, even: 1, odd: 2, mark: 3, space: 4 } as const;
export const stopBitses = { '1': 0, '1.5': 1, '2': 2 } as const;
export type ParityName = keyof typeof parities;
export type StopBitsName = keyof typeof stopBitses;

export interface Settings {
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: ParityName;
  readonly stopBits: StopBitsName;
}

/** What nearly every device speaks when its manual is silent. */
export const usualSettings: Settings = { baudRate: 115_200, dataBits: 8, parity: 'none', stopBits: '1' };

const parityLetters: Readonly<Record<string, ParityName>> = { N: 'none', E: 'even', O: 'odd', M: 'mark', S: 'space' };

/** "9600", "9600,7E1", "9600-8N1.5" and "9600 8N2". */
export function parseSettings(text: string): Partial<Settings> {
  const match = /^(\d{1,9})(?:[,\s/:-]([5-8])([NEOMSneoms])(1|1\.5|2))?$/.exec(text.trim());
  if (match === null) throw usageFailure(`"${text}" are not line settings`, 'Write them like 115200,8N1.');
  const baudRate = Number(match[1]);
  if (match[2] === undefined) return { baudRate };
  const parity = parityLetters[(match[3] ?? '').toUpperCase()] ?? 'none';
  return { baudRate, dataBits: Number(match[2]), parity, stopBits: (match[4] ?? '1') as StopBitsName };
}

function parityName(number: number): string {
  return Object.entries(parities).find(([, value]) => value === number)?.[0] ?? String(number);
}

function stopBitsName(number: number): string {
  return Object.entries(stopBitses).find(([, value]) => value === number)?.[0] ?? String(number);
}

/** 115200,8N1 */
export function settingsText(line: { baudRate: number; dataBits: number; parity: number; stopBits: number }): string {
  const letter = parityName(line.parity).charAt(0).toUpperCase();
  return `${line.baudRate},${line.dataBits}${letter}${stopBitsName(line.stopBits)}`;
}

/** Bits on the line for one byte: a start bit, the data, the parity bit if any, the stop bits rounded up. */
export function bitsPerByte(line: { dataBits: number; parity: number; stopBits: number }): number {
  return 1 + line.dataBits + (line.parity === parities.none ? 0 : 1) + (line.stopBits === stopBitses['1'] ? 1 : 2);
}
