/** What names, titles, business keys and reasons may be made of. Each check answers what is wrong, '' being nothing. Pure. */
import { DICTIONARY_NAME, type Scope } from '../outbox/event.ts';
import { CHANGE_REASON, PLAIN_TEXT } from './face.ts';

const maxTitleLength = 256;
const maxKeyLength = 256;
const maxReasonLength = 1_000;

const dictionaryName = new RegExp(DICTIONARY_NAME);
const plainText = new RegExp(PLAIN_TEXT);
const reasonText = new RegExp(CHANGE_REASON);

export function dictionaryNameFault(name: string): string {
  return dictionaryName.test(name)
    ? ''
    : 'must begin with a lower-case letter or digit, go on with those, ".", "_" or "-", and have at most 128 characters';
}

export function titleFault(title: string): string {
  return plainTextFault(title, 1, maxTitleLength);
}

/** Kept byte for byte: "é" as one code point and as two are two keys. */
export function businessKeyFault(key: string): string {
  return plainTextFault(key, 1, maxKeyLength);
}

/** Line breaks are welcome in a reason. */
export function changeReasonFault(reason: string): string {
  const length = lengthFault(reason, 0, maxReasonLength);
  if (length !== '') return length;
  return reasonText.test(reason) ? '' : 'must have no NUL character';
}

/** The role that opens a scope; '' where none is needed. */
export function roleOf(scope: Scope): string {
  return scope === 'PUBLIC' ? '' : `refdata-${scope.toLowerCase()}`;
}

function plainTextFault(text: string, min: number, max: number): string {
  const length = lengthFault(text, min, max);
  if (length !== '') return length;
  return plainText.test(text) ? '' : 'must have no control characters';
}

function lengthFault(text: string, min: number, max: number): string {
  if (!text.isWellFormed()) return 'has half of a surrogate pair, which is no character';
  const length = codePoints(text, max);
  if (length < min) return 'must not be empty';
  return length > max ? `must have at most ${max} characters` : '';
}

/** Counts no further than beyond `enough`: the text may be a megabyte. */
function codePoints(text: string, enough: number): number {
  if (text.length <= enough) return text.length;
  return text.length > 2 * enough ? enough + 1 : Array.from(text).length;
}
