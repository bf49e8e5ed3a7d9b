/**
 * Takes secrets out of texts that leave the box. It is told nothing of what a text is: whatever looks like the value of
 * something secret goes, whole, in any syntax that a log, a configuration or a header may have; rather too much than too
 * little. Beside that, secrets that are known (the broker's password) go wherever they stand. Pure.
 */

export const REMOVED = '[removed]';

/** Parts of a name, as "kafka.sasl_password", "apiKey" or "X-Service-Signature" have them. */
const secretWords = new Set(
  'auth bearer cookie credential digest hash jaas key pass passphrase passwd password pin psk pw pwd salt sasl secret sha256 sig signature token'.split(
    ' ',
  ),
);
/** In any part of it, also where words run together ("saltedpassword"). */
const secretParts = /passw|passphrase|secret|token|credential|authori[sz]|api-?_?key|private-?_?key|signature/i;
/** Such a key names a file, and not what is in it. */
const fileName = /(?:file|files|dir|path)$/i;
/** What may stand there; a secret that was typed in its place mostly looks otherwise. */
const plainFile = /^(?:\/(?:[a-z0-9._+-]{1,24}(?:\/|$)){1,8}|credential:[a-z0-9._-]{1,40})?$/;

export function isSecretName(name: string): boolean {
  if (secretParts.test(name)) return true;
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .some((word) => secretWords.has(word) || secretWords.has(word.replace(/s$/, '')));
}

/** The value of a key that names a file: itself where it looks like one. */
export function shownFile(value: string): string {
  return plainFile.test(value) ? value : REMOVED;
}

export class Redactor {
  readonly #known: readonly string[];

  /** `secrets`: values that are known to be secret. Very short ones are in every text. */
  constructor(secrets: readonly string[] = []) {
    const all = secrets.map((one) => one.trim()).filter((one) => one.length >= shortestKnown);
    this.#known = [...new Set(all.flatMap(formsOf))].sort((a, b) => b.length - a.length);
  }

  text(text: string): string {
    let out = text;
    for (const known of this.#known) out = out.replaceAll(known, REMOVED);
    for (const pattern of privateKeys) out = out.replaceAll(pattern, REMOVED);
    out = withoutValues(out);
    for (const [pattern, replacement] of shapes) out = out.replaceAll(pattern, replacement);
    return out;
  }

  /** A value for JSON: every text in it, names too, and whatever is below a name that is secret. */
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

/** As it is, and as it is written in JSON, URLs and headers. */
function formsOf(secret: string): string[] {
  const base64 = btoa(String.fromCharCode(...new TextEncoder().encode(secret)));
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret.toWellFormed()), base64];
}

/** To its end; where that is missing (a line limit, a cut file), to where base64 ends. Newlines may be written as \n. */
const privateKeys = [
  /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]{0,16000}?-----END [A-Z0-9 ]*PRIVATE KEY-----/g,
  /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,-]*/g,
];

/** What is a secret by its own looks. */
const shapes: readonly (readonly [RegExp, string])[] = [
  [/lsd_[\w-]*/g, REMOVED],
  [/\b(Bearer|Basic|Digest|Negotiate)(\s+|%20)[^\s"',;<>]+/gi, `$1 ${REMOVED}`],
  [/\b(Token)\s+(?=\S*\d)[^\s"',;<>]{8,}/gi, `$1 ${REMOVED}`],
  // User and password of a URL: to the last "@" of the word.
  [/(:\/\/)[^\s"'<>]{0,1000}@/g, `$1${REMOVED}@`],
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

/**
 * A name, perhaps in quotes, and what may stand between it and its value: "=", ":", "=>", a comma between quotes, a blank
 * behind an option of a command, ">" of a tag; in prose nothing, or "is".
 */
const named =
  /(["'`]?)((?<![A-Za-z])[A-Za-z][\w.-]{0,200})\1(\\?["'`]?[ \t]*(?:=>|:=|[=:])[ \t]*|["'`][ \t]*,[ \t]*(?=["'`])|>|[ \t]+(?:is|was)[ \t]+|[ \t]+(?=["'`])|[ \t]+)/g;

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
    const isSaid = isScheme || (/is|was/.test(between) && fileName.test(name));
    if (!isSecretName(name) || isSaid || !isValueBehind(text, found.index, whole, between)) {
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

/** A mere blank counts behind an option of a command alone ("--token x"), and before a quote. */
function isValueBehind(text: string, at: number, whole: string, between: string): boolean {
  return between.trim() !== '' || text[at - 1] === '-' || /["'`]/.test(text[at + whole.length] ?? '');
}

function isHarmless(name: string, value: string): boolean {
  const bare = value.replace(/^(["'])(.*)\1$/, '$2').trim();
  if (bare === '' || bare === REMOVED) return true;
  return fileName.test(name) && shownFile(bare) === bare;
}

function endOfValue(text: string, from: number, between: string): number {
  if (between === '>') return endOf(text, '<', from);
  const at = from;
  // "password:" with its value in the next line, deeper: YAML, and JSON that was laid out.
  if (/^[|>]?[-+0-9]*\s*\n[ \t]+/.test(text.slice(from, from + 200)) && between.includes(':'))
    return endOfBlock(text, from);
  for (const quote of ['"""', "'''"]) if (text.startsWith(quote, at)) return endOf(text, quote, at + 3, 3);
  const escaped = text[at] === '\\' && /["'`]/.test(text[at + 1] ?? '');
  if (escaped) return endOfLine(text, at);
  const first = text[at] ?? '';
  if (/["'`]/.test(first)) {
    const end = endOfQuoted(text, at, first);
    // Whether a backslash hides the quote behind it, shells and others have it differently.
    const isUnsure = first !== '"' && text.slice(at, end).includes('\\');
    return isUnsure ? endOfLine(text, at) : endOfSticking(text, end);
  }
  if (first === '[' || first === '{') return endOfBracket(text, at);
  return endOfLine(text, at);
}

/** What sticks to a quoted part belongs to it, as in a shell's 'it'\''s'; so does what follows it and begins nothing new. */
function endOfSticking(text: string, from: number): number {
  let at = from;
  while (at < text.length && !/[\s,;)}\]&<]/.test(text[at] ?? '')) {
    const one = text[at] ?? '';
    if (/["'`]/.test(one)) at = endOfQuoted(text, at, one);
    else at += one === '\\' ? 2 : 1;
  }
  const rest = /^[ \t]+([^\n]{0,100})/.exec(text.slice(at, at + 120))?.[1] ?? '';
  return rest === '' || /^(?:[\w.-]+["']?\s*[=:]|[-,;)}\]#(|&<>])/.test(rest) ? at : endOfLine(text, at);
}

/** Of a quote that is not closed: the end of the line. A backslash hides what follows it. */
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
  // A line that ends in a backslash goes on in the next one, in shells.
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
