/** What the service does to the PL011 of the emulated box: QEMU's record of what was written to its registers, in words. */
import { existsSync, readFileSync } from 'node:fs';

const [DATA, DIVISOR, FRACTION, LINE_CONTROL, CONTROL] = [0x00, 0x24, 0x28, 0x2c, 0x30];

/** "9600 7E1", "DTR off", "break", "break ends", or bytes that were sent: '"f0"'. */
export interface UartAct {
  readonly atMs: number;
  readonly what: string;
}

/** From QEMU's log with trace event pl011_write and -msg timestamp=on. What is written again unchanged is no act. */
export function uartActs(file: string, clockHz: number): UartAct[] {
  const acts: UartAct[] = [];
  const held = new Map<number, number>();
  let settings = '';
  const note = (atMs: number, what: string): void => void acts.push({ atMs, what });
  for (const { atMs, register, value } of writes(file)) {
    const before = held.get(register);
    held.set(register, value);
    if (register === DATA) addByte(acts, atMs, value);
    if (register === LINE_CONTROL) {
      const now = `${baudRate(held, clockHz)} ${frame(value)}`;
      if (now !== settings) note(atMs, now);
      settings = now;
      if (((before ?? 0) ^ value) & 1) note(atMs, value & 1 ? 'break' : 'break ends');
    }
    if (register === CONTROL && before !== undefined) {
      const changed = [lineChange('DTR', before, value, 0x400), lineChange('RTS', before, value, 0x800)];
      if (changed.some((one) => one !== '')) note(atMs, changed.filter((one) => one !== '').join(', '));
    }
  }
  return acts;
}

function* writes(file: string) {
  const pattern = /@(\d+\.\d+):pl011_write addr (0x[0-9a-f]+) value (0x[0-9a-f]+)/g;
  const text = existsSync(file) ? readFileSync(file, 'latin1') : '';
  for (const [, seconds, register, value] of text.matchAll(pattern))
    yield { atMs: Number(seconds) * 1000, register: Number(register), value: Number(value) };
}

export function addByte(acts: UartAct[], atMs: number, byte: number): void {
  const char = String.fromCharCode(byte);
  const last = acts.at(-1);
  if (last?.what.startsWith('"'))
    acts[acts.length - 1] = { atMs: last.atMs, what: `${last.what.slice(0, -1)}${char}"` };
  else acts.push({ atMs, what: `"${char}"` });
}

/** To the hundred: the divisor has steps. */
function baudRate(held: ReadonlyMap<number, number>, clockHz: number): number {
  return 100 * Math.round(clockHz / 1_600 / ((held.get(DIVISOR) ?? 0) + (held.get(FRACTION) ?? 0) / 64));
}

/** WLEN, PEN, EPS, SPS (the parity bit is constant), STP2 of UARTLCR_H. */
function frame(value: number): string {
  const [even, odd] = value & 0x80 ? ['S', 'M'] : ['E', 'O'];
  const parity = value & 0x02 ? (value & 0x04 ? even : odd) : 'N';
  return `${5 + ((value >> 5) & 3)}${parity}${value & 0x08 ? 2 : 1}`;
}

function lineChange(name: string, before: number, now: number, bit: number): string {
  return (before ^ now) & bit ? `${name} ${now & bit ? 'on' : 'off'}` : '';
}
