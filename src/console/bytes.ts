/** Bytes as people type them and as dumps; and base64 as the interface carries them. Pure. */
import { hexText } from '../shared/log-formats/byte-text.ts';
import { text as all } from './text.ts';

const words = all.typed;

export function fromBase64(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** As hex dumps are: offset, bytes, ASCII with dots. */
export function dumpLines(bytes: Uint8Array, width: number, maxLines: number): string[] {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length && lines.length < maxLines; at += width) {
    const part = bytes.subarray(at, at + width);
    const text = Array.from(part, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(4, '0')}  ${hexText(part).padEnd(width * 3 - 1)}  ${text}\n`);
  }
  return lines;
}

// Typed text as the bytes that are sent.

export type Typed = { readonly bytes: Uint8Array } | { readonly fault: string };

const simple: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, '0': 0, '\\': 92 };
const encoder = new TextEncoder();

/** UTF-8, with \n \r \t \0 \\ and \xNN. */
export function bytesOfText(text: string): Typed {
  const parts: number[] = [];
  let plain = '';
  const flush = (): void => {
    // One by one: as arguments of one call, those of a whole file would not fit.
    for (const byte of encoder.encode(plain)) parts.push(byte);
    plain = '';
  };
  for (let at = 0; at < text.length; ) {
    const character = text[at] ?? '';
    if (character !== '\\') {
      plain += character;
      at += 1;
      continue;
    }
    const next = text[at + 1] ?? '';
    const known = simple[next];
    const hex = /^x([0-9a-f]{2})/i.exec(text.slice(at + 1, at + 4))?.[1];
    if (known === undefined && hex === undefined) return { fault: faultOf(text.slice(at, at + 4)) };
    flush();
    parts.push(hex === undefined ? (known ?? 0) : Number.parseInt(hex, 16));
    at += hex === undefined ? 2 : 4;
  }
  flush();
  return { bytes: Uint8Array.from(parts) };
}

function faultOf(found: string): string {
  if (found === '\\') return words.backslash;
  if (found[1] === 'x') return words.notHexEscape(found);
  return words.noEscape(found.slice(0, 2));
}

/** "48 65 6c", "48656c", "0x48,0x65". */
export function bytesOfHex(text: string): Typed {
  const parts: number[] = [];
  for (const word of text.split(/[\s,;:]+/).filter((one) => one !== '')) {
    const digits = word.replace(/^0x/i, '');
    const wrong = /[^0-9a-f]/i.exec(digits)?.[0];
    if (wrong !== undefined) return { fault: words.notHexDigit(wrong) };
    if (digits === '' || digits.length % 2 === 1) return { fault: words.notWholeBytes(word) };
    for (let at = 0; at < digits.length; at += 2) parts.push(Number.parseInt(digits.slice(at, at + 2), 16));
  }
  return { bytes: Uint8Array.from(parts) };
}
