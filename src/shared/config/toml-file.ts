/** The text of lineside.toml: its content, the lines that are no TOML, and the line of each key. Pure. */
import { parse, TomlError } from 'smol-toml';
import { LinesideError, messageOf } from '../base/errors.ts';
import type { Fault } from './values.ts';

/** Throws CONFIG_INVALID with the place of the fault. */
export function parseToml(file: string, text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const where = error instanceof TomlError ? `${file}:${error.line}:${error.column}` : file;
    throw new LinesideError('CONFIG_INVALID', `${where}: ${firstLine(error)}`, { cause: error });
  }
}

/** Lines that were left out. They are never shown: they may hold a secret that was typed there by mistake. */
interface Unread extends Fault {
  /** From 1. */
  readonly line: number;
  readonly lines: string;
}

/**
 * A file without the lines that are not TOML. A broken header takes its table with it: the keys below it would otherwise
 * count for the table before.
 */
export function readableToml(text: string): { content: Record<string, unknown>; faults: Unread[] } {
  const lines = text.split('\n');
  const faults: Unread[] = [];
  // Each pass leaves out a line or more.
  for (let passes = 0; passes <= lines.length; passes++) {
    try {
      return { content: parse(lines.join('\n')), faults };
    } catch (error) {
      const at = error instanceof TomlError ? error.line - 1 : 0;
      const isHeader = /^\s*\[/.test(lines[at] ?? '');
      const next = lines.findIndex((line, i) => i > at && /^\s*\[/.test(line));
      const end = !isHeader ? at + 1 : next === -1 ? lines.length : next;
      faults.push({
        path: `line ${at + 1}`,
        line: at + 1,
        message: firstLine(error),
        lines: lines.slice(at, end).join('\n'),
      });
      lines.fill('', at, end);
    }
  }
  return { content: {}, faults };
}

/** By the path of each key and section; of what is written in plain lines, without quotes or inline tables. */
export function linesOf(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let section = '';
  for (const [i, line] of text.split('\n').entries()) {
    const [, header] = /^\s*\[\s*([\w.-]+)\s*\]/.exec(line) ?? [];
    const [, key] = /^\s*([\w.-]+)\s*=/.exec(line) ?? [];
    if (header !== undefined) section = `${header}.`;
    const path = header ?? (key === undefined ? undefined : section + key);
    if (path !== undefined && !found.has(path)) found.set(path, i + 1);
  }
  return found;
}

function firstLine(error: unknown): string {
  return messageOf(error).split('\n')[0] ?? '';
}
