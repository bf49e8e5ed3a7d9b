/** SHA-256 of a certificate (DER) as people compare it: hexadecimal with colons. Pure. */
import { usageFailure } from '../failure.ts';

/** As it is kept: 64 lower-case digits. Colons and spaces are for the eye; undefined: it is none. */
export function parseFingerprint(text: string): string | undefined {
  const digits = text.replace(/[:\s]/g, '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(digits) ? digits : undefined;
}

/** Of an option or a variable. */
export function givenFingerprint(text: string): string {
  const found = parseFingerprint(text);
  if (found !== undefined) return found;
  throw usageFailure(
    'the fingerprint is not one of SHA-256',
    'Write the 64 hexadecimal digits that the box shows (lineside identity show); colons are optional.',
  );
}

/** AB:CD:..., as openssl prints it. */
export function fingerprintText(digits: string): string {
  return (digits.toUpperCase().match(/../g) ?? []).join(':');
}
