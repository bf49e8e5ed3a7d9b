/** Which box may push: a file of lines "DEVICE-ID SHA-256 of its token in hex". */

import { changeTokenFile } from '../shared/auth/token-file.ts';
import type { KnownToken } from '../shared/auth/token-reader.ts';
import { digestOf, newToken } from '../shared/auth/tokens.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { idFault } from './batch-check.ts';

/** CONFIG_INVALID names a faulty line by its number and never quotes it: it may hold a token. */
export function parseDeviceTokens(file: string, text: string): KnownToken<string>[] {
  const tokens: KnownToken<string>[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const [, deviceId = '', digest = ''] = /^(\S.*\S|\S)\s+([0-9a-f]{64})\s*$/.exec(line) ?? [];
    if (digest === '' || idFault('device id', deviceId) !== '') {
      throw new LinesideError('CONFIG_INVALID', `${file}: line ${at + 1} is not "DEVICE-ID SHA256-IN-HEX"`);
    }
    tokens.push({ owner: deviceId, digest: Buffer.from(digest, 'hex') });
  }
  return tokens;
}

/** Stores the hash of a new token for a device, beside those it has, and returns the token, which is shown this once. */
export function addDeviceToken(file: string, deviceId: string): string {
  const fault =
    idFault('the device id', deviceId) ||
    (/^#|^\s|\s$/.test(deviceId) ? 'the device id: begins with "#" or ends in space' : '');
  if (fault !== '') throw new LinesideError('INVALID_ARGUMENT', fault);
  const token = newToken();
  changeTokenFile(file, (text) => {
    parseDeviceTokens(file, text);
    return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${deviceId} ${digestOf(token).toString('hex')}\n`;
  });
  return token;
}

/** All tokens of a device. NOT_FOUND where it has none. */
export function revokeDeviceTokens(file: string, deviceId: string): void {
  changeTokenFile(file, (text) => {
    const lines = text.split('\n');
    const kept = lines.filter((line) => !parseDeviceTokens(file, line).some(({ owner }) => owner === deviceId));
    if (kept.length === lines.length) throw new LinesideError('NOT_FOUND', `"${deviceId}" has no token in ${file}`);
    return kept.join('\n');
  });
}
