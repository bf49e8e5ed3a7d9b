/** Bytes as people read them: hex, and text with escapes that drives no terminal. Pure. */

const digits = '0123456789abcdef';
const hexOf = Array.from({ length: 256 }, (_, byte) => `${digits[byte >> 4]}${digits[byte & 15]}`);

/** "48 65 0a"; at most `max` bytes, then "…". */
export function hexText(bytes: Uint8Array, max = bytes.length): string {
  const parts: string[] = [];
  for (const byte of bytes.subarray(0, max)) parts.push(hexOf[byte] ?? '');
  return parts.join(' ') + (bytes.length > max ? ' …' : '');
}

const named: Readonly<Record<number, string>> = { 9: '\\t', 10: '\\n', 13: '\\r', 92: '\\\\' };

/** As one line: UTF-8 as characters, everything invisible as an escape that can be sent again unchanged. */
export function visibleText(bytes: Uint8Array, max = bytes.length): string {
  const shown = bytes.subarray(0, max);
  let text = '';
  for (let at = 0; at < shown.length; ) {
    const byte = shown[at] ?? 0;
    const length = sequenceLength(shown, at);
    if (length > 1) text += decoder.decode(shown.subarray(at, at + length));
    else if (named[byte] !== undefined) text += named[byte];
    else text += byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${hexOf[byte]}`;
    at += Math.max(1, length);
  }
  return text + (bytes.length > max ? ' …' : '');
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Characters that show nothing, or turn the text around them, are shown as bytes. */
const invisible = /^[\p{C}\p{Z}]$/u;

/** Length of the printable multi-byte UTF-8 character at this place; 0: there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  try {
    return invisible.test(decoder.decode(bytes.subarray(at, at + length))) ? 0 : length;
  } catch {
    return 0;
  }
}
