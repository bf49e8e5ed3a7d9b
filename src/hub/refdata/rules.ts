/**
 * Rules for names, titles, business keys, reasons, times and data that hold in every dictionary. Each check of a string returns
 * the fault, or ''. Pure.
 */
import { FAR_FUTURE, type Instant, parseInstant } from '../../shared/base/instant.ts';
import { DICTIONARY_NAME, lengthFault } from '../outbox/event.ts';
import { PLAIN_TEXT, type Validity } from './face.ts';

const maxTitleLength = 256;
const maxKeyLength = 256;

const dictionaryName = new RegExp(DICTIONARY_NAME);
const plainText = new RegExp(PLAIN_TEXT);

export function dictionaryNameFault(name: string): string {
  return dictionaryName.test(name)
    ? ''
    : 'must begin with a lower-case letter or digit, continue with those, ".", "_" or "-", and have at most 128 characters';
}

export function titleFault(title: string): string {
  return plainTextFault(title, 1, maxTitleLength);
}

/** Compared byte for byte: "é" as one code point and as two are two keys. */
export function businessKeyFault(key: string): string {
  return plainTextFault(key, 1, maxKeyLength);
}

function plainTextFault(text: string, min: number, max: number): string {
  const length = lengthFault(text, min, max);
  if (length !== '') return length;
  return plainText.test(text) ? '' : 'must have no control characters';
}

export const notAnInstant =
  'must be an RFC 3339 time with an offset and at most six digits of a second, as in 2026-03-01T09:30:00.250000+00:00';

/** `asked`: what the caller wrote, if anything. A string is the reason of a refusal. */
export function openFrom(asked: string | undefined, txTime: Instant): Validity | string {
  if (asked === undefined) return { validFrom: txTime, validTo: FAR_FUTURE };
  const validFrom = parseInstant(asked);
  if (validFrom === undefined) return notAnInstant;
  return validFrom < FAR_FUTURE ? { validFrom, validTo: FAR_FUTURE } : 'must be before the end of time';
}

/** As JSON in UTF-8: a broker accepts messages of 1 MB by default, and an event contains the data twice. */
const maxDataBytes = 256 * 1024;

/** The data's JSON as it is stored, or its fault. Exact numbers, depth and names are the parser's task (parseExactJson). */
export function checkData(
  data: unknown,
): { readonly text: string; readonly fault?: never } | { readonly fault: string } {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return { fault: 'must be an object' };
  const text = JSON.stringify(data);
  // A UTF-16 unit is at most three bytes.
  if (text.length * 3 > maxDataBytes && new TextEncoder().encode(text).length > maxDataBytes) {
    return { fault: `must have at most ${maxDataBytes / 1024} KiB as JSON` };
  }
  return { text };
}
