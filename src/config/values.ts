/** One value against its key: of the right type and within its limits, or a sentence that says what is wrong. Pure. */
import type { Key, Value } from './keys.ts';

export type Judged = { readonly value: Value } | { readonly fault: string };

/** A value as TOML gave it. */
export function judge(key: Key, raw: unknown): Judged {
  switch (key.kind) {
    case 'text':
      return judgeText(raw, key.isPath === true);
    case 'integer':
      return judgeInteger(raw, key.min, key.max, key.auto === true);
    case 'switch':
      return typeof raw === 'boolean' ? { value: raw } : { fault: `must be true or false, not ${show(raw)}` };
    case 'choice':
      return judgeChoice(raw, key.choices);
    case 'list':
      return judgeList(raw);
  }
}

function judgeText(raw: unknown, isPath: boolean): Judged {
  if (typeof raw !== 'string') return { fault: `must be a text in quotes, not ${show(raw)}` };
  if (raw.includes('\0')) return { fault: 'must not contain a NUL' };
  if (isPath && raw !== '' && !raw.startsWith('/')) return { fault: `must be an absolute path, not ${show(raw)}` };
  return { value: raw };
}

function judgeInteger(raw: unknown, min: number, max: number, auto: boolean): Judged {
  if (auto && raw === 'auto') return { value: 'auto' };
  const wanted = `a whole number from ${min} to ${max}${auto ? ', or "auto"' : ''}`;
  if (typeof raw !== 'number' || !Number.isInteger(raw)) return { fault: `must be ${wanted}, not ${show(raw)}` };
  return raw < min || raw > max ? { fault: `must be ${wanted}, not ${raw}` } : { value: raw };
}

function judgeChoice(raw: unknown, choices: readonly string[]): Judged {
  // stop_bits = 2 means what it says, quotes or not.
  const text = typeof raw === 'number' ? String(raw) : raw;
  if (typeof text === 'string' && choices.includes(text)) return { value: text };
  return { fault: `must be one of ${choices.map((c) => `"${c}"`).join(', ')}, not ${show(raw)}` };
}

function judgeList(raw: unknown): Judged {
  if (!Array.isArray(raw)) return { fault: `must be a list of texts, not ${show(raw)}` };
  const items: string[] = [];
  for (const item of raw) {
    if (typeof item !== 'string' || item === '') return { fault: `must hold texts only, not ${show(item)}` };
    items.push(item);
  }
  return { value: items };
}

/** A value as the environment gave it: text, to be read as the key's type. */
export function fromEnvironment(key: Key, text: string): Judged {
  switch (key.kind) {
    case 'integer':
      return judge(key, /^-?\d+$/.test(text) ? Number(text) : text);
    case 'switch':
      if (key.fileOnly === true) return { fault: 'can only be set in the file' };
      return judge(key, text === 'true' ? true : text === 'false' ? false : text);
    case 'list':
      return judge(
        key,
        text
          .split(',')
          .map((item) => item.trim())
          .filter((item) => item !== ''),
      );
    case 'text':
    case 'choice':
      return judge(key, text);
  }
}

function show(raw: unknown): string {
  return typeof raw === 'bigint' ? `${raw}` : (JSON.stringify(raw) ?? String(raw));
}

/** The name most like an unknown one, where one is near enough to have been meant. */
export function nearest(unknown: string, known: readonly string[]): string | undefined {
  const limit = Math.max(2, Math.floor(unknown.length / 4));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const name of known) {
    const distance = editDistance(unknown.toLowerCase(), name.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
