/** Bytes as people read them: hex, and text with escapes that drives no terminal. Pure. */

const digits = '0123456789abcdef';
const hexOf = Array.from({ length: 256 }, (_, byte) => `${digits[byte >> 4]}${digits[byte & 15]}`);

/** "48 65 0a"; at most `max` bytes, then "…". */
export function hexText(bytes: Uint8Array, max = bytes.length): string {
  const parts: string[] = [];
  for (const byte of bytes.subarray(0, max)) parts.push(hexOf[byte] ?? '');
  return parts.join(' ') + (bytes.length > max ? ' …' : '');
}

/** As one line: UTF-8 as characters, everything invisible as an escape that can be sent again unchanged. */
export function visibleText(bytes: Uint8Array, max = bytes.length): string {
  const shown = bytes.subarray(0, max);
  let text = '';
  for (let at = 0; at < shown.length; ) {
    const byte = shown[at] ?? 0;
    const point = characterAt(shown, at);
    if (point > 0) text += String.fromCodePoint(point);
    else if (named[byte] !== undefined) text += named[byte];
    else text += isPlain(byte) ? String.fromCharCode(byte) : `\\x${hexOf[byte]}`;
    at += lengthOf(point);
  }
  return text + (bytes.length > max ? ' …' : '');
}

/** Columns of a terminal that this text fills at most. */
export function visibleColumns(bytes: Uint8Array): number {
  let columns = 0;
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at] ?? 0;
    const point = characterAt(bytes, at);
    columns += point > 0 ? columnsOfPoint(point) : (columnsOf[byte] ?? 0);
    at += lengthOf(point);
  }
  return columns;
}

/** Of a text as it is. */
export function textColumns(text: string): number {
  let columns = 0;
  for (const character of text) columns += columnsOfPoint(character.codePointAt(0) ?? 0);
  return columns;
}

/** Characters beyond Latin, Greek and Cyrillic may be as wide as two. */
function columnsOfPoint(point: number): number {
  return point < MAYBE_WIDE ? 1 : 2;
}

const named: Readonly<Record<number, string>> = { 9: '\\t', 10: '\\n', 13: '\\r', 92: '\\\\' };
/** After the last block of Cyrillic: Armenian. */
const MAYBE_WIDE = 0x530;
/** Characters that show nothing, or turn the text around them, are shown as bytes. */
const invisible = /^[\p{C}\p{Z}]$/u;

const columnsOf = Uint8Array.from({ length: 256 }, (_, byte) => visibleText(Uint8Array.of(byte)).length);

function isPlain(byte: number): boolean {
  return byte >= 0x20 && byte < 0x7f;
}

/** The printable multi-byte UTF-8 character at this place; 0: there is none. */
function characterAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] ?? 0;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  let point = lead & (0x7f >> length);
  for (let next = at + 1; next < at + length; next += 1) {
    const byte = bytes[next] ?? 0;
    if ((byte & 0xc0) !== 0x80) return 0;
    point = (point << 6) | (byte & 0x3f);
  }
  // In more bytes than it needs, or none.
  if (lengthOf(point) !== length || point > 0x10ffff) return 0;
  return invisible.test(String.fromCodePoint(point)) ? 0 : point;
}

/** Bytes of a character; 0: of one byte. */
function lengthOf(point: number): number {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}
