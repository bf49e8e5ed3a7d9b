/** The technician's files on the boot partition, as whatever editor left them. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { TomlError } from 'smol-toml';
import { messageOf } from '../../shared/base/errors.ts';
import type { Fault } from '../../shared/config/values.ts';
import { namesIn } from '../disk.ts';
import { linesOf, parseToml } from '../toml-text.ts';

export type CardName = 'setup.toml' | 'lineside.toml';

/** Bytes: four times a lineside.toml with every key and its comment. */
const MAX_CARD_FILE_BYTES = 64 * 1024;

type OnCard =
  | { readonly kind: 'none' }
  | { readonly kind: 'fault'; readonly message: string }
  /** `path`: as it is spelled on the card: FAT knows no case, other file systems do. */
  | { readonly kind: 'file'; readonly path: string; readonly bytes: Buffer };

export function findOnCard(boot: string, name: CardName): OnCard {
  const names = namesIn(boot);
  const found = names.filter((one) => one.toLowerCase() === name);
  const [first] = found;
  // Windows hides the ending and adds one.
  const twin = names.find((one) => one.toLowerCase() === `${name}.txt`);
  if (twin !== undefined)
    return { kind: 'fault', message: `there is a file "${twin}": its name must be ${name}, without ".txt"` };
  if (first === undefined) return { kind: 'none' };
  if (found.length > 1) return { kind: 'fault', message: `is there twice: ${found.join(', ')}` };
  const path = join(boot, first);
  const status = statSync(path);
  if (!status.isFile()) return { kind: 'fault', message: 'is no file' };
  if (status.size > MAX_CARD_FILE_BYTES)
    return { kind: 'fault', message: `has ${status.size} bytes: at most ${MAX_CARD_FILE_BYTES} are read` };
  return { kind: 'file', path, bytes: readFileSync(path) };
}

/** undefined: the bytes are not UTF-8, and `message` says what they seem to be. */
export function decode(bytes: Buffer): { readonly text: string } | { readonly message: string } {
  const first = bytes.subarray(0, 2).toString('hex');
  if (first === 'fffe' || first === 'feff' || bytes.includes(0)) {
    return { message: 'is not UTF-8 but UTF-16, it seems: save it as UTF-8' };
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    // A replacement character stands for what could not be decoded.
    const line = bytes.toString('utf8').split('\uFFFD')[0]?.split('\n').length ?? 1;
    return { message: `line ${line}: has characters that are not UTF-8: save it as UTF-8` };
  }
}

/** As the box keeps it: without byte order mark, lines ending as everywhere else. */
export function unixText(text: string): string {
  return text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
}

export interface Document {
  readonly table: Readonly<Record<string, unknown>>;
  /** "NAME:LINE: path: message", as far as the line is known. */
  readonly locate: (fault: Fault) => string;
}

/** The parser's message shows the faulty line, which may hold a secret: only its first sentence is kept. */
export function readDocument(name: CardName, text: string): Document | { readonly message: string } {
  try {
    const table = parseToml(text);
    let lines: ReadonlyMap<string, number> | undefined;
    return {
      table,
      locate: ({ path, message }) => `${name}${lineOf((lines ??= linesOf(text)), path)}: ${path}: ${message}`,
    };
  } catch (error) {
    const line = error instanceof TomlError ? error.line : 0;
    const what = (messageOf(error).split('\n')[0] ?? '').replace('Invalid TOML document: ', '');
    const curly = /[“”„‘’]/.test(text.split('\n')[line - 1] ?? '') ? ' (quotes must be straight: ")' : '';
    return { message: `${name}${line === 0 ? '' : `:${line}`}: ${what}${curly}` };
  }
}

/** Of the value, or of the table around it if the value is not there. */
function lineOf(lines: ReadonlyMap<string, number>, path: string): string {
  for (let wanted = path; wanted !== ''; wanted = wanted.replace(/[.[]?[^.[]*$/, '')) {
    if (lines.has(wanted)) return `:${lines.get(wanted)}`;
  }
  return '';
}
