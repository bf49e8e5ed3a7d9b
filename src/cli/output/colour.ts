/** Colours of a terminal, where they are wanted. */
import type { CliIo, CliOutput } from '../io.ts';

export const colourHelp = 'colours: auto is on a terminal, without NO_COLOR';
export const colourTimes = ['auto', 'always', 'never'] as const;

const codes = { red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof codes;

/** auto: on a terminal that has colours, unless NO_COLOR is set (no-color.org). */
export function wantsColour(out: CliOutput, env: CliIo['env'], when: (typeof colourTimes)[number] = 'auto'): boolean {
  if (when !== 'auto') return when === 'always';
  return out.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
}

export function painted(colour: Colour, text: string): string {
  return `\x1b[${codes[colour]}m${text}\x1b[0m`;
}
