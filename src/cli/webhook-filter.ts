/** The options that say which changes a subscription is told of. */
import { type Command, Option } from 'commander';
import { usageFailure } from './failure.ts';
import { safeText } from './hex.ts';
import type { JsonObject } from './json.ts';

export interface FilterOptions {
  readonly scope?: readonly string[];
  readonly dictionary?: readonly string[];
  readonly action?: readonly string[];
  readonly category?: readonly string[];
}

export interface AllOptions {
  readonly allDictionaries?: boolean;
  readonly allActions?: boolean;
  readonly allCategories?: boolean;
}

const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];
const actions = ['created', 'updated', 'closed'];
const categories = ['dict.record.*', 'dict.definition.*', 'dict.draft.*'];

export function withFilter(command: Command): Command {
  return command
    .optionsGroup('Which changes; each may be given several times:')
    .addOption(several('--scope <scope>', `only of this scope: ${scopes.join(', ')}`, scopeOf))
    .addOption(several('--dictionary <name>', 'only of this dictionary', (text) => text))
    .addOption(several('--action <action>', `only these changes of records: ${actions.join(', ')}`, actionOf))
    .addOption(several('--category <category>', 'only these: record, definition, draft', categoryOf));
}

/** Takes a filter away again. */
export function withAll(command: Command): Command {
  return command
    .option('--all-dictionaries', 'of every dictionary')
    .option('--all-actions', 'every change of a record')
    .option('--all-categories', 'changes of records, definitions and drafts');
}

export function filterFields(options: FilterOptions & AllOptions): JsonObject {
  const { scope, dictionary, action, category, allDictionaries, allActions, allCategories } = options;
  return {
    ...(scope === undefined ? {} : { scopes: scope }),
    ...either('dictionaries', dictionary, allDictionaries, '--dictionary and --all-dictionaries'),
    ...either('actions', action, allActions, '--action and --all-actions'),
    ...either('categories', category, allCategories, '--category and --all-categories'),
  };
}

function either(
  field: string,
  some: readonly string[] | undefined,
  all: boolean | undefined,
  options: string,
): JsonObject {
  if (some !== undefined && all === true) throw usageFailure(`${options} exclude each other`, 'Give one of them.');
  if (all === true) return { [field]: null };
  return some === undefined ? {} : { [field]: some };
}

function several(flags: string, description: string, parse: (text: string) => string): Option {
  return new Option(flags, description).argParser<string[]>((text, before) => [...(before ?? []), parse(text)]);
}

function scopeOf(text: string): string {
  return oneOf(scopes, text.toUpperCase(), `"${safeText(text)}" is no scope`, scopes);
}

function actionOf(text: string): string {
  return oneOf(actions, text.toLowerCase(), `"${safeText(text)}" is no action`, actions);
}

/** "draft" and "dict.draft.*": the latter is a pattern of file names to many a shell. */
function categoryOf(text: string): string {
  const whole = text.startsWith('dict.') ? text : `dict.${text}.*`;
  return oneOf(categories, whole, `"${safeText(text)}" is no category`, ['record', 'definition', 'draft']);
}

function oneOf(known: readonly string[], text: string, why: string, said: readonly string[]): string {
  if (known.includes(text)) return text;
  throw usageFailure(why, `Known are ${said.join(', ')}.`);
}
