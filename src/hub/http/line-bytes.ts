/** The bytes that a request wants sent. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';

/** INVALID_ARGUMENT with the place of the fault; what the bytes are is not quoted. */
export function sentBytes({ hex, base64 }: { readonly hex?: string; readonly base64?: string }): Uint8Array {
  if (hex !== undefined && base64 !== undefined) throw invalid('hex and base64: send one of them, not both');
  if (hex !== undefined) return hexBytes(hex);
  if (base64 !== undefined) return base64Bytes(base64);
  throw invalid('hex is missing (or base64)');
}

/** "48 65", "4865" */
function hexBytes(text: string): Uint8Array {
  const odd = text.search(/[^0-9a-fA-F\s]/);
  if (odd !== -1) throw invalid(`hex has a character at position ${odd} that is no hex digit`);
  const part = text.split(/\s+/).findIndex((digits) => digits.length % 2 === 1);
  if (part !== -1) throw invalid(`hex has an odd number of digits in its group ${part + 1}`);
  return Buffer.from(text.replaceAll(/\s+/g, ''), 'hex');
}

function base64Bytes(text: string): Uint8Array {
  // The decoder leaves out what it does not know, without a word.
  const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  if (!isBase64) throw invalid('base64 is not base64 (RFC 4648, with its padding)');
  return Buffer.from(text, 'base64');
}

function invalid(reason: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', reason, { reasons: [reason] });
}
