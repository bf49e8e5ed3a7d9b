/**
 * The files of many cards, from a list of boxes and a template of each file: checked as the box checks them, before any is written.
 * Each box gets a token of its own; the card has its hash alone.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '../../shared/auth/tokens.ts';
import { csvRows, separatorOf } from '../../shared/base/csv.ts';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import { type CardName, readDocument } from './card.ts';
import { judgeSetup } from './setup-file.ts';

/** In a template, in double quotes or as a number: @COLUMN@. */
const MARK = /@(\w+)@/g;
/** The column that names the box. */
const NAME = 'name';
/** Not of the list: made for each box. */
const HASH = 'token_hash';
const NAME_PATTERN = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const MAX_BYTES = 4 * 1024 * 1024;

export type Templates = Readonly<Partial<Record<CardName, string>>>;

interface Card {
  readonly name: string;
  readonly token: string;
  readonly files: Readonly<Partial<Record<CardName, string>>>;
}

/** With a fault there are no cards. Pure but for the tokens. */
export function makeCards(list: string, templates: Templates, makeToken = newToken) {
  const faults: string[] = [];
  const rows = [...csvRows(list, separatorOf(list))].flatMap((row) => {
    if ('cells' in row) return [{ line: row.line, cells: row.cells.map(({ text }) => text.trim()) }];
    faults.push(`line ${row.line}: a quote that is not closed, or in the middle of a cell`);
    return [];
  });
  const [head, ...boxes] = rows;
  const columns = head?.cells ?? [];
  faults.push(...columnFaults(columns, templates));
  if (boxes.length === 0) faults.push('the list has no box');
  const names = new Set<string>();
  const cards = boxes.map(({ line, cells }): Card => {
    const values = new Map(columns.map((column, i) => [column, cells[i] ?? '']));
    const name = values.get(NAME) ?? '';
    const at = `line ${line}${name === '' ? '' : ` (${name})`}: `;
    if (cells.length !== columns.length) faults.push(`${at}${cells.length} cells instead of ${columns.length}`);
    if (!NAME_PATTERN.test(name))
      faults.push(`${at}${NAME}: must be 1 to 63 of a-z, 0-9 and "-", beginning and ending with a letter or digit`);
    if (names.has(name)) faults.push(`${at}${NAME}: the list has it twice`);
    names.add(name);
    const token = makeToken();
    values.set(HASH, createHash('sha256').update(token).digest('hex'));
    const files = Object.entries(templates).map(([file, template]) => [file, filled(template, values)] as const);
    for (const [file, text] of files)
      faults.push(...fileFaults(file as CardName, text).map((fault) => `${at}${fault}`));
    return { name, token, files: Object.fromEntries(files) };
  });
  return { cards: faults.length === 0 ? cards : [], faults };
}

function columnFaults(columns: readonly string[], templates: Templates): string[] {
  const faults: string[] = [];
  if (!columns.includes(NAME)) faults.push(`the first line has no column "${NAME}"`);
  const twice = columns.find((column, i) => columns.indexOf(column) !== i);
  if (twice !== undefined) faults.push(`the first line has the column "${twice}" twice`);
  const used = new Set<string>();
  for (const [file, template] of Object.entries(templates)) {
    for (const [mark, column = ''] of template.matchAll(MARK)) {
      used.add(column);
      if (column !== HASH && !columns.includes(column)) faults.push(`${file}: ${mark} is no column of the list`);
    }
  }
  const unused = columns.filter((column) => column !== NAME && !used.has(column));
  if (unused.length > 0) faults.push(`no template has @${unused.join('@ and @')}@`);
  return [...new Set(faults)];
}

/** A value cannot end the string that it stands in: as in JSON. */
function filled(template: string, values: ReadonlyMap<string, string>): string {
  return template.replace(MARK, (_, column: string) => JSON.stringify(values.get(column) ?? '').slice(1, -1));
}

/** What the box would say of it. */
function fileFaults(name: CardName, text: string): string[] {
  const document = readDocument(name, text);
  if ('message' in document) return [document.message];
  const { faults } = name === 'setup.toml' ? judgeSetup(document.table) : parseConfig(document.table, {});
  return faults.map(document.locate);
}

export interface CardsOptions {
  readonly from: string;
  readonly setup: string;
  readonly lineside?: string;
  readonly output: string;
}

/** Answers the names. Throws INVALID_ARGUMENT with all faults, and CONFLICT if a directory of a box exists. */
export function writeCards({ from, setup, lineside, output }: CardsOptions): readonly string[] {
  const templates: Templates = {
    'setup.toml': readFile(setup),
    ...(lineside !== undefined && { 'lineside.toml': readFile(lineside) }),
  };
  const { cards, faults } = makeCards(readFile(from), templates);
  if (faults.length > 0)
    throw new LinesideError('INVALID_ARGUMENT', 'nothing was written: the files have faults', { reasons: faults });
  try {
    mkdirSync(output, { recursive: true, mode: 0o700 });
    const there = new Set(readdirSync(output));
    const taken = cards.filter(({ name }) => there.has(name)).map(({ name }) => name);
    if (taken.length > 0)
      throw new LinesideError('CONFLICT', `nothing was written: ${output} has ${taken.join(', ')} already`, {
        hint: 'A second token would be made: leave these boxes out of the list, or name another directory.',
      });
    for (const { name, token, files } of cards) {
      writeCard(join(output, name), { ...files, 'token.txt': `${token}\n` });
    }
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    throw new LinesideError('STORAGE_FAILED', `cannot write to ${output}: ${systemCode(error) || messageOf(error)}`);
  }
  return cards.map(({ name }) => name);
}

/** Whole, or not there: a card without its token.txt would be of no use. */
function writeCard(dir: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(dir, { mode: 0o700 });
  try {
    for (const [file, text] of Object.entries(files)) writeFileSync(join(dir, file), text, { mode: 0o600 });
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

function readFile(path: string): string {
  try {
    const bytes = readFileSync(path);
    if (bytes.length <= MAX_BYTES) return bytes.toString('utf8').replace(/^\uFEFF/, '');
  } catch (error) {
    throw new LinesideError('NOT_FOUND', `cannot read ${path}: ${systemCode(error) || messageOf(error)}`);
  }
  throw new LinesideError('TOO_LARGE', `${path} has more than 4 MiB`);
}
