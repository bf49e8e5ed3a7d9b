/** Bytes as hex and as text that is safe on a terminal, and back. Pure. */
import { usageFailure } from '../failure.ts';

/** "01 03 0a" */
export function spacedHex(data: Uint8Array): string {
  return plainHex(data).replace(/..(?=.)/g, '$& ');
}

/** "01030a" */
export function plainHex(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex');
}

/** Reads "01 03", "0103", "0x01,0x03", "01:03". */
export function parseHex(text: string): Uint8Array {
  const parts = text.split(/[\s,:;-]+/).filter((part) => part !== '');
  let all = '';
  for (const part of parts) {
    const pure = part.replace(/^0x/i, '');
    if (!/^[0-9a-f]+$/i.test(pure)) throw usageFailure(`"${part}" is not hex`, 'Write bytes as "01 03 ff" or 0103ff.');
    if (pure.length !== 1 && pure.length % 2 === 1) {
      throw usageFailure(`"${part}" has an odd number of hex digits`, 'Write two digits for each byte.');
    }
    all += pure.length === 1 ? `0${pure}` : pure;
  }
  return Uint8Array.from(Buffer.from(all, 'hex'));
}

/** The right column of a hex dump. */
export function asciiColumn(data: Uint8Array): string {
  return Buffer.from(data)
    .toString('latin1')
    .replace(/[^ -~]/g, '.');
}

const named: Readonly<Record<string, string>> = { '\r': '\\r', '\n': '\\n', '\t': '\\t', '\\': '\\\\' };
/** What a terminal may be given as it is: letters, marks, digits, punctuation, symbols and the plain space, of any script. */
const showable = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

/** The same for text from the service (notes, names, errors): one line, nothing that drives a terminal. */
export function safeText(text: string): string {
  let out = '';
  for (const char of text) out += showable.test(char) ? char : (named[char] ?? escapedBytes(Buffer.from(char)));
  return out;
}

/** The same for several lines. */
export function safeLines(text: string): string {
  return text.split('\n').map(safeText).join('\n');
}

/** Line ends, tabs and backspace work as on a terminal; any other control is shown (^[ for ESC), so nothing drives it. */
export function liveText(data: Uint8Array): string {
  return mapText(data, (char, bytes) => {
    if (showable.test(char) || char === '\r' || char === '\n' || char === '\t' || char === '\b') return char;
    const code = bytes[0] ?? 0;
    if (bytes.length === 1 && code < 0x20) return `^${String.fromCharCode(code + 0x40)}`;
    return code === 0x7f ? '^?' : escapedBytes(bytes);
  });
}

function escapedBytes(bytes: Uint8Array): string {
  return plainHex(bytes).replace(/../g, '\\x$&');
}

/** One character in well-formed UTF-8 (Unicode, table 3-7), or else one byte. */
const sequence =
  /[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}|[^]/g;

function mapText(data: Uint8Array, show: (char: string, bytes: Uint8Array) => string): string {
  const latin1 = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('latin1');
  return latin1.replace(sequence, (text) => {
    const bytes = Buffer.from(text, 'latin1');
    return text.length === 1 && text >= '\x80' ? escapedBytes(bytes) : show(bytes.toString('utf8'), bytes);
  });
}

const unescapes: Readonly<Record<string, number>> = { r: 0x0d, n: 0x0a, t: 0x09, '0': 0, e: 0x1b, '\\': 0x5c };

/** Text to bytes; with escapes: \r \n \t \0 \e \\ and \xNN. */
export function textBytes(text: string, escapes: boolean): Uint8Array {
  if (!escapes) return Uint8Array.from(Buffer.from(text));
  const parts = text.split(/(\\(?:x[0-9a-fA-F]{2}|[^x]|$|x))/);
  return Uint8Array.from(
    Buffer.concat(parts.map((part) => (part.startsWith('\\') ? unescaped(part) : Buffer.from(part)))),
  );
}

function unescaped(part: string): Buffer {
  if (part.length === 4) return Buffer.from(part.slice(2), 'hex');
  const byte = unescapes[part.slice(1)];
  if (byte === undefined) {
    throw usageFailure(`"${part}" is not an escape`, 'Known are \\r \\n \\t \\0 \\e \\\\ and \\xNN.');
  }
  return Buffer.from([byte]);
}
