/** The line's messages as the JSON of the HTTP interface, and back: configuration, gaps, the bytes that are to be sent. Pure. */
import type { Static } from '@sinclair/typebox';
import type Long from 'long';
import { LinesideError } from '../../../shared/base/errors.ts';
import { messageJson, parities, stopBits } from '../../../shared/proto/line-status.ts';
import { lineside, serial } from '../../../shared/proto/services.ts';
import type { LineBody } from '../schemas/line.ts';

export function configMessage(config: Static<typeof LineBody.open>): serial.SerialConfig {
  const parity = parities.indexOf(config.parity);
  return serial.SerialConfig.fromObject({ ...config, parity, stopBits: stopBits.indexOf(config.stopBits) });
}

export function gapJson(gap: lineside.v1.LogGap): object {
  return messageJson(lineside.v1.LogGap, gap, number);
}

/** A timestamp that a caller of LogRaw chose may exceed 2^53, and is rounded. */
export function number(value: Long): number {
  return value.toNumber();
}

/** INVALID_ARGUMENT with the place of the fault; the bytes are not quoted. */
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
  // Node's decoder skips characters that it does not know.
  const isBase64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text);
  if (!isBase64) throw invalid('base64 is not base64 (RFC 4648, with its padding)');
  return Buffer.from(text, 'base64');
}

function invalid(reason: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', reason, { reasons: [reason] });
}
