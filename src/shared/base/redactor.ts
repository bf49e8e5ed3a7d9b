/**
 * Removes secrets from strings that leave the box. It removes whatever looks like the value of a secret name, in any syntax
 * of a log, a configuration or a header: rather too much than too little. It also removes known secrets (the broker's
 * password) wherever they occur. Pure.
 */

export const REMOVED = '[removed]';

/** Parts of a name, as "kafka.sasl_password", "apiKey" or "X-Service-Signature" have them. */
const secretWords = new Set(
  'auth bearer cookie credential digest hash jaas key pass passphrase passwd password pin psk pw pwd salt sasl secret sha256 sig signature token'.split(
    ' ',
  ),
);
/** In any part of it, also where words run together ("saltedpassword"). */
const secretParts =
  /passw|passphrase|secret|token|credential|authori[sz]|api-?_?key|private-?_?key|signature|username/i;
/** Such a key names a file, not its content. */
const fileName = /(?:file|files|dir|path)$/i;
/** A usual file name; a secret that was typed in its place mostly looks different. */
const plainFile = /^(?:\/(?:[a-z0-9._+-]{1,24}(?:\/|$)){1,8}|credential:[a-z0-9._-]{1,40})?$/;

export function isSecretName(name: string): boolean {
  if (secretParts.test(name)) return true;
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .some((word) => secretWords.has(word) || secretWords.has(word.replace(/s$/, '')));
}

/** The value of a key that names a file, if it looks like a file name. */
export function shownFile(value: string): string {
  return plainFile.test(value) ? value : REMOVED;
}

export class Redactor {
  readonly #known: readonly string[];

  /** `secrets`: known values; very short ones occur in every text and are ignored. */
  constructor(secrets: readonly string[] = []) {
    const all = secrets.map((one) => one.trim()).filter((one) => one.length >= shortestKnown);
    this.#known = [...new Set(all.flatMap(formsOf))].sort((a, b) => b.length - a.length);
  }

  text(text: string): string {
    let out = text;
    for (const known of this.#known) out = out.replaceAll(known, REMOVED);
    out = withoutPrivateKeys(out);
    out = withoutValues(out.replaceAll(valueFirst, withoutValueFirst));
    for (const [pattern, replacement] of shapes) out = out.replaceAll(pattern, replacement);
    return out.replaceAll(/:\/\/[^\s"'<>]+/g, withoutUser);
  }

  /** A value for JSON: all its strings and names, and everything below a secret name. */
  json(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((one) => this.json(one));
    if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? String(value) : value;
    return Object.fromEntries(
      Object.entries(value).map(([name, below]) => [this.text(name), this.#below(name, below)]),
    );
  }

  #below(name: string, value: unknown): unknown {
    if (!isSecretName(name) || typeof value === 'boolean' || typeof value === 'number') return this.json(value);
    if (typeof value === 'string' && (value === '' || (fileName.test(name) && shownFile(value) === value)))
      return value;
    return value === null || value === undefined ? value : REMOVED;
  }
}

const shortestKnown = 4;

/** As it is, and as it is written in JSON, URLs, headers and dumps. */
function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const hex = bytes.toString('hex');
  const percent = hex.replaceAll(/../g, '%$&');
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret.toWellFormed()),
    bytes.toString('base64'),
    ...[hex, percent].flatMap((form) => [form, form.toUpperCase()]),
  ];
}

const keyMark = /-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY-----/g;
/** A key whose end is missing (a line limit, a cut file) ends with its base64. Newlines may be written as \\n. */
const keyBody = /[A-Za-z0-9+/=\s\\:,]*/y;
/** The largest keys have 13 KB in PEM. */
const longestKey = 16_000;

/** One pass over the marks: many beginnings without an end take linear time. */
function withoutPrivateKeys(text: string): string {
  const marks = [...text.matchAll(keyMark)];
  let out = '';
  let done = 0;
  for (const [at, { 0: mark, 1: kind, index }] of marks.entries()) {
    if (kind !== 'BEGIN' || index < done) continue;
    const next = marks[at + 1];
    const isWhole = next?.[1] === 'END' && next.index - index <= longestKey;
    keyBody.lastIndex = index + mark.length;
    out += `${text.slice(done, index)}${REMOVED}`;
    done = isWhole ? next.index + next[0].length : keyBody.lastIndex + (keyBody.exec(text)?.[0].length ?? 0);
  }
  return out + text.slice(done);
}

/** Secrets that their own form shows. */
const shapes: readonly (readonly [RegExp, string])[] = [
  [/lsd_[\w-]*/g, REMOVED],
  [/\b(Bearer|Basic|Digest|Negotiate)(\s+|%20)[^\s"',;<>]+/gi, `$1 ${REMOVED}`],
  [/\b(Token)\s+(?=\S*\d)[^\s"',;<>]{8,}/gi, `$1 ${REMOVED}`],
  // Tokens of other services, which logs of a site's scripts may have.
  [/(https:\/\/hooks\.slack\.com\/)[^\s"'<>]*/gi, `$1${REMOVED}`],
  [/\b(?:gh[pousr]_|github_pat_|gl(?:pat|ptt|dt|rt|ft|cbt)-|xox[a-z]-)[\w-]+/g, REMOVED],
  [/\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g, REMOVED],
  [/(?<![\w+/=])(?=[a-z0-9+/]{0,39}[A-Z])(?=[A-Z0-9+/]{0,39}[a-z])[A-Za-z0-9+/]{40}(?![\w+/=])/g, REMOVED],
  // "-p X" and "-pX" of a command; a number is a port or a process, and a path a directory.
  [/((?:^|\s)-p[ \t]+)(?!\d+(?:\s|$)|\/)\S+/gm, `$1${REMOVED}`],
  // Letters alone are options ("tar -pxzf") unless they are many.
  [/((?:^|\s)-p)[A-Za-z]{8,}(?=\s|$)/gm, `$1${REMOVED}`],
  [/((?:^|\s)-p)(?=[^\s=/]*[\d!@#$%^&*])(?!\d+(?:\s|$))[^\s=/]\S*/gm, `$1${REMOVED}`],
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, REMOVED],
  // SCRAM's messages, and SASL PLAIN's.
  [/\bn,[^\s,]*,n=[^\s]*/g, REMOVED],
  [/\b[crpsv]=[\w+/=-]{8,}\S*/g, REMOVED],
  [/\0[^\0\n]+\0[^\0\n]*/g, REMOVED],
  // A line of base64: of a key whose beginning is elsewhere.
  [/[A-Za-z0-9+/]{60,}={0,2}/g, REMOVED],
  // SHA-256 in hex: tokens are kept so.
  [/(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/gi, REMOVED],
];

/** User and password of a URL: to the last "@" of the word. */
function withoutUser(word: string): string {
  const at = word.lastIndexOf('@');
  return at === -1 ? word : `://${REMOVED}${word.slice(at)}`;
}

/**
 * A name, perhaps in quotes, and what may stand between it and its value: "=", ":", "=>", a comma between quotes, a blank
 * behind an option of a command, ">" of a tag; in prose nothing, or "is".
 */
const between = [
  String.raw`\\?["'\x60]?[ \t]*(?:=>|:=|[=:]|%3[aAdD])[ \t]*`,
  // name: TOKEN, and "value:" in the same line or the next one; an attribute of XML.
  String.raw`["'\x60]?[ \t]*,?\s{1,100}["'\x60]?value["'\x60]?[ \t]*[=:][ \t]*`,
  String.raw`["'\x60][ \t]*,[ \t]*(?=["'\x60])`,
  '>',
  String.raw`[ \t]+(?:is|was)[ \t]+`,
  String.raw`[ \t]+`,
];
/** Of one element or object: a value, and behind it the name that says whether it is a secret. */
const valueFirst =
  /(\bvalue["'\x60]?[ \t]{0,9}[=:][ \t]{0,9}["'\x60]?)([^\n<>]{1,200}?)(["'\x60]?(?:,\s{0,40}|\s{1,40})["'\x60]?(?:name|key)["'\x60]?[ \t]{0,9}[=:][ \t]{0,9}["'\x60]?)([\w.-]{1,100})/gi;

function withoutValueFirst(whole: string, before: string, _value: string, between: string, name: string): string {
  return isSecretName(name) ? `${before}${REMOVED}${between}${name}` : whole;
}

/** From the beginning of a word on, so that a long one is read once. */
const named = new RegExp(String.raw`(["'\x60]?)((?<![\w.-])[\w.-]+)\1(${between.join('|')})`, 'gi');

function withoutValues(text: string): string {
  let out = '';
  let done = 0;
  named.lastIndex = 0;
  for (let found = named.exec(text); found !== null; found = named.exec(text)) {
    const [whole, , name = '', between = ''] = found;
    // "tls.key_file is a FIFO" says nothing of what is in it.
    // Nor does the scheme of "sasl_ssl://host:9093".
    const isScheme =
      /^sasl_(?:ssl|plaintext)$/i.test(name) && between === ':' && text.startsWith('//', found.index + whole.length);
    const isSaid = isScheme || (/^\s+(?:is|was)/.test(between) && fileName.test(name));
    // "%26key%3D": the digits belong to what is before the name.
    const plain = text[found.index - 1] === '%' ? name.slice(2) : name;
    if (!isSecretName(plain) || isSaid || !isValueBehind(text, found.index, whole, between)) {
      // The next name may begin inside what was taken for a separator.
      named.lastIndex = found.index + Math.max(1, whole.length - between.length);
      continue;
    }
    const from = found.index + whole.length;
    const to = endOfValue(text, from, between);
    const value = text.slice(from, to);
    if (to > from && !isHarmless(name, value)) {
      out += `${text.slice(done, from)}${REMOVED}`;
      done = to;
    }
    named.lastIndex = Math.max(to, from);
  }
  return out + text.slice(done);
}

/** A word that prose does not have: with a digit or a sign in it, or capitals inside; a mere number is a figure. */
const oddWord = /^(?!\d+(?:\s|$))(?=\S{6})(?:\S*[^\sA-Za-z.,:;()'"!?-]|\S*[a-z][A-Z])/;

/** Of a command, before the name: a prompt, an option, or "set" next to it. */
const inCommand = /^[ \t]*[$#>][ \t]|(?:^|[ \t])--?[A-Za-z]|(?:^|[ \t])set[ \t]+$/i;
/** In a command, behind the name; words of prose such as "from", "for" and "file" are shorter. */
const commandWord = /^[^\s.,:;]{6}/;

/**
 * Behind a mere blank: after an option of a command ("--token x") or in a command, behind a name such as "api_key", before a
 * quote, and if it does not look like prose.
 */
function isValueBehind(text: string, at: number, whole: string, between: string): boolean {
  if (between.trim() !== '' || between.includes('\t') || text[at] === '-' || /[_-]key[ \t]/i.test(whole)) return true;
  const from = at + whole.length;
  const value = text.slice(from, from + 200);
  if (/^["'`]/.test(value) || oddWord.test(value)) return true;
  const line = text.slice(Math.max(0, at - 200), at).replace(/^[^]*\n/, '');
  return commandWord.test(value) && inCommand.test(line);
}

function isHarmless(name: string, value: string): boolean {
  const bare = value.replace(/^(["'])(.*)\1$/, '$2').trim();
  if (bare === '' || bare === REMOVED) return true;
  return fileName.test(name) && shownFile(bare) === bare;
}

function endOfValue(text: string, from: number, between: string): number {
  if (between === '>') return endOf(text, '<', from);
  // "password:" with its value in the next line, deeper: YAML, and JSON that was laid out.
  if (/^[|>]?[-+0-9]*\s*\n[ \t]+/.test(text.slice(from, from + 200)) && between.includes(':'))
    return endOfBlock(text, from);
  for (const quote of ['"""', "'''"]) if (text.startsWith(quote, from)) return endOf(text, quote, from + 3, 3);
  const first = text[from] ?? '';
  if (/["'`]/.test(first)) return endOfSticking(text, from);
  return first === '[' || first === '{' ? endOfBracket(text, from) : endOfLine(text, from);
}

/** A quoted part and the text adjacent to it, as in a shell's 'it'\''s'; so does following text that begins no new item. */
function endOfSticking(text: string, from: number): number {
  let at = from;
  while (at < text.length && !/[\s,;)}\]&<]/.test(text[at] ?? '')) {
    const one = text[at] ?? '';
    if (/["'`]/.test(one)) {
      const end = endOfQuoted(text, at, one);
      // Whether a backslash hides the quote behind it, shells and others have it differently.
      if (one !== '"' && text.slice(at, end).includes('\\')) return endOfLine(text, from);
      at = end;
    } else at += one === '\\' ? 2 : 1;
  }
  const rest = /^[ \t]+([^\n]{0,100})/.exec(text.slice(at, at + 120))?.[1] ?? '';
  return rest === '' || /^(?:[\w.-]+["']?\s*[=:]|[-,;)}\]#(|&<>])/.test(rest) ? at : endOfLine(text, at);
}

/** The end of the line if the quote is not closed. A backslash escapes the next character. */
function endOfQuoted(text: string, from: number, quote: string): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === quote) return at + 1;
    else if (text[at] === '\n') return endOfLine(text, from);
  }
  return endOfLine(text, from);
}

function endOfBracket(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const one = text[at] ?? '';
    if (/["'`]/.test(one)) at = endOfQuoted(text, at, one) - 1;
    else if (one === '[' || one === '{') depth++;
    else if (one === ']' || one === '}') depth--;
    if (depth === 0) return endOfLine(text, at);
  }
  return text.length;
}

/** The lines that follow, as long as they are indented or empty. */
function endOfBlock(text: string, from: number): number {
  let at = endOfLine(text, from);
  while (at < text.length && /^\n(?:[ \t]+\S|[ \t]*(?=\n))/.test(text.slice(at, at + 400)))
    at = endOfLine(text, at + 1);
  return at;
}

function endOfLine(text: string, from: number): number {
  // In shells a line that ends in a backslash continues in the next one.
  for (let at = from; ; ) {
    const end = endOf(text, '\n', at);
    if (end === text.length || !/\\\r?$/.test(text.slice(Math.max(from, end - 2), end))) return end;
    at = end + 1;
  }
}

function endOf(text: string, what: string, from: number, beyond = 0): number {
  const at = text.indexOf(what, from);
  return at === -1 ? text.length : at + beyond;
}
