/** Names of directories for the ids of devices and logs, whatever is in the ids. Pure but for the hash. */
import { createHash } from 'node:crypto';

/** A name in a directory has at most 255 bytes. */
const MAX_NAME_BYTES = 200;

/**
 * Percent-encoded, as far as it is not plain; by its hash where that becomes too long. Never "." or "..", never with a
 * slash, never the same for two ids.
 */
export function directoryName(id: string): string {
  const name = id.replace(/[^A-Za-z0-9._-]|^\./gu, percent);
  return name.length <= MAX_NAME_BYTES ? name : `~${createHash('sha256').update(id).digest('hex')}`;
}

function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}
