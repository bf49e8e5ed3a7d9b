/** A subscription's secret: out of a file or standard input, or made here; never on a command line, where all can read it. */
import { randomBytes } from 'node:crypto';
import { type Given, option } from '../command.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { wholeText } from '../input.ts';
import { safeText } from '../output/hex.ts';
import type { Call } from '../shell.ts';

/** As many as the output of HMAC-SHA256 has: more add nothing. */
const generatedBytes = 32;
/** The service takes at most as many, and tells who has more what is wrong. */
const maxFileBytes = 8192;

export const secretFile = option('--secret-file <file>', 'file that holds the secret (-: standard input); one line');
export const secretOptions = [
  secretFile,
  option('--generate-secret', 'make one, and print it once, as the last line'),
] as const;
export type SecretOptions = Given<typeof secretOptions>;

/** The secret, and whether it is to be shown, being new. */
export async function secretOf(call: Call<SecretOptions>): Promise<{ secret: string; made: boolean }> {
  const { secretFile, generateSecret } = call.options;
  if ((secretFile !== undefined) === (generateSecret === true)) {
    const why = secretFile === undefined ? 'there is no secret' : 'there are two secrets';
    throw usageFailure(why, 'Give --secret-file FILE (-: standard input), or --generate-secret.');
  }
  if (secretFile === undefined) return { secret: randomBytes(generatedBytes).toString('base64url'), made: true };
  return { secret: await readSecret(call, secretFile), made: false };
}

/** What the file holds but for the end of its line. */
export async function readSecret(call: Call<object>, path: string): Promise<string> {
  if (path === '') throw usageFailure('no file is named', 'Give --secret-file FILE, or - for standard input.');
  const name = path === '-' ? 'standard input' : path;
  const text = (
    await wholeText(call, path, maxFileBytes, `${maxFileBytes} bytes`, (why) => unusable(name, why))
  ).replace(/\r?\n$/, '');
  if (text === '') throw unusable(name, 'it is empty');
  if (/[\r\n]/.test(text)) throw unusable(name, 'it has more than one line');
  return text;
}

function unusable(name: string, why: string): CliFailure {
  return new CliFailure('refused', 'BAD_SECRET_FILE', why, {
    what: `cannot use ${safeText(name)}`,
    next: 'Put the secret into it, on one line and nothing else: at least 16 bytes.',
  });
}
