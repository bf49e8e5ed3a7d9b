/** JSON that is edited as text: one member is changed, all else stays letter by letter, so that no number is rounded. Pure. */

/** A member of an object in its text; `start` and `end` are of its value. */
interface Member {
  readonly name: string;
  readonly nameStart: number;
  readonly start: number;
  readonly end: number;
}

/** The values of an object's members, each as its text. `json`: a valid JSON object. */
export function membersOf(json: string): ReadonlyMap<string, string> {
  return new Map(scan(json).map(({ name, start, end }) => [name, json.slice(start, end)]));
}

/** The values of a list, each as its text. `json`: a valid JSON list. */
export function elementsOf(json: string): readonly string[] {
  return scanList(json).map(({ start, end }) => json.slice(start, end));
}

/** The line of the value at the path; of the innermost value around it if there is none. `json`: valid. */
export function lineOf(json: string, path: readonly string[]): { readonly line: number; readonly isFound: boolean } {
  let from = 0;
  let depth = 0;
  let value = json;
  for (const part of path) {
    const inner = innerOf(value, part);
    if (inner === undefined) break;
    depth += 1;
    from += inner.start;
    value = value.slice(inner.start, inner.end);
  }
  return { line: json.slice(0, from).split('\n').length, isFound: depth === path.length };
}

/** Where a text is no JSON, by the message of a browser's own parser; undefined: it does not say. */
export function syntaxFaultAt(json: string, message: string): number | undefined {
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  if (position !== undefined) return Number(position);
  const [, line, column] = /at line (\d+) column (\d+)/.exec(message) ?? [];
  if (line === undefined) return undefined;
  const before = json.split('\n').slice(0, Number(line) - 1);
  return before.reduce((sum, one) => sum + one.length + 1, 0) + Number(column) - 1;
}

function innerOf(json: string, part: string): Pick<Member, 'start' | 'end'> | undefined {
  const first = json[afterSpace(json, 0)];
  if (first === '{') return scan(json).findLast(({ name }) => name === part);
  return first === '[' ? scanList(json)[Number(part)] : undefined;
}

/** The object with one member set; undefined: without it. */
export function withMember(json: string, name: string, value: string | undefined): string {
  const members = scan(json);
  // Of two with one name the last counts.
  const at = members.findLastIndex((one) => one.name === name);
  const found = members[at];
  if (value === undefined) return found === undefined ? json : withMember(without(json, members, at), name, undefined);
  if (found !== undefined) return json.slice(0, found.start) + value + json.slice(found.end);
  const added = `${JSON.stringify(name)}: ${value}`;
  const last = members.at(-1);
  if (last === undefined) return json.includes('\n') ? `{\n  ${added}\n}` : `{${added}}`;
  const space = json.slice(gapStart(json, last), last.nameStart);
  return `${json.slice(0, last.end)},${space || ' '}${added}${json.slice(last.end)}`;
}

function without(json: string, members: readonly Member[], at: number): string {
  const [before, it, after] = [members[at - 1], members[at], members[at + 1]];
  if (it === undefined) return json;
  if (after !== undefined) return json.slice(0, it.nameStart) + json.slice(after.nameStart);
  return json.slice(0, before?.end ?? gapStart(json, it)) + json.slice(it.end);
}

/** Where the white space before a member begins. */
function gapStart(json: string, { nameStart }: Member): number {
  let at = nameStart;
  while (isSpace(json[at - 1])) at -= 1;
  return at;
}

function scan(json: string): readonly Member[] {
  const members: Member[] = [];
  let at = afterSpace(json, afterSpace(json, 0) + 1);
  while (json[at] === '"') {
    const nameStart = at;
    const nameEnd = afterString(json, at);
    // Behind the colon.
    const start = afterSpace(json, afterSpace(json, nameEnd) + 1);
    const end = afterValue(json, start);
    members.push({ name: JSON.parse(json.slice(nameStart, nameEnd)) as string, nameStart, start, end });
    // Behind the comma, or the brace.
    at = afterSpace(json, afterSpace(json, end) + 1);
  }
  return members;
}

function scanList(json: string): readonly Pick<Member, 'start' | 'end'>[] {
  const elements: Pick<Member, 'start' | 'end'>[] = [];
  let start = afterSpace(json, afterSpace(json, 0) + 1);
  while (start < json.length && json[start] !== ']') {
    const end = afterValue(json, start);
    elements.push({ start, end });
    // Behind the comma, or the bracket.
    start = afterSpace(json, afterSpace(json, end) + 1);
  }
  return elements;
}

const isSpace = (char: string | undefined): boolean => char !== undefined && ' \t\r\n'.includes(char);

function afterSpace(json: string, from: number): number {
  let at = from;
  while (isSpace(json[at])) at += 1;
  return at;
}

function afterString(json: string, from: number): number {
  let at = from + 1;
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** Without recursion: the text of a user may be as deep as he likes. */
function afterValue(json: string, from: number): number {
  let at = from;
  let depth = 0;
  for (; at < json.length; at += 1) {
    const char = json[at] ?? '';
    if (char === '"') at = afterString(json, at) - 1;
    else if ('{['.includes(char)) depth += 1;
    else if ('}]'.includes(char)) {
      if (depth === 0) return at;
      depth -= 1;
    } else if (depth === 0 && (char === ',' || isSpace(char))) return at;
    if (depth === 0 && '"}]'.includes(char)) return at + 1;
  }
  return at;
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export const isNumber = (text: string): boolean => NUMBER.test(text);
export const isInteger = (text: string): boolean => NUMBER.test(text) && Number.isInteger(Number(text));
