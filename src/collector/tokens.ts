/**
 * Which box may push: a file of lines "DEVICE-ID SHA-256 of its token in hex". Read anew when it changes, so that adding
 * and revoking need no restart.
 */
import { timingSafeEqual } from 'node:crypto';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { digestOf, newToken } from '../config/tokens.ts';
import { idFault } from './judge.ts';

/** How long a revoked token may still be accepted; also bounds the cost of looking. (For an unknown one it looks at once.) */
const RECHECK_MS = 1_000;

interface DeviceToken {
  readonly deviceId: string;
  readonly digest: Buffer;
}

/** CONFIG_INVALID where a line is not understood; it is named by its number, never quoted: it may hold a token. */
function parseDeviceTokens(file: string, text: string): DeviceToken[] {
  const tokens: DeviceToken[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const [, deviceId = '', digest = ''] = /^(\S.*\S|\S)\s+([0-9a-f]{64})\s*$/.exec(line) ?? [];
    if (digest === '' || idFault('device id', deviceId) !== '') {
      throw new LinesideError('CONFIG_INVALID', `${file}: line ${at + 1} is not "DEVICE-ID SHA256-IN-HEX"`);
    }
    tokens.push({ deviceId, digest: Buffer.from(digest, 'hex') });
  }
  return tokens;
}

export class DeviceTokens {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #known: readonly DeviceToken[] = [];
  /** What the file looked like when it was last read. */
  #version = '';
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(file: string, clock: Clock, logger: Logger) {
    this.#file = file;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Whose token it is; undefined: nobody's. */
  async ownerOf(token: string): Promise<string | undefined> {
    if (this.#clock.monoMs() - this.#checkedAtMs >= RECHECK_MS) await this.#refresh();
    const owner = this.#find(token);
    if (owner !== undefined) return owner;
    // It may have been added a moment ago: a look that begins now is sure to see it.
    await this.#checking;
    await this.#refresh();
    return this.#find(token);
  }

  #find(token: string): string | undefined {
    const digest = digestOf(token);
    let owner: string | undefined;
    // Every entry is compared, in constant time each.
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) owner = known.deviceId;
    return owner;
  }

  #refresh(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checkedAtMs = this.#clock.monoMs();
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /** A file that cannot be read or understood lets nobody in: the last tokens may be the ones just revoked. */
  async #look(): Promise<void> {
    let version = '';
    try {
      const { ino, size, mtimeMs, ctimeMs } = await stat(this.#file);
      version = `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
      if (version === this.#version) return;
      this.#known = parseDeviceTokens(this.#file, await readFile(this.#file, 'utf8'));
    } catch (error) {
      this.#known = [];
      version ||= `unreadable: ${systemCode(error)}`;
      if (version !== this.#version) {
        this.#logger.error('the tokens file cannot be read: no token is accepted', {
          file: this.#file,
          error: messageOf(error),
        });
      }
    }
    this.#version = version;
  }
}

/** Stores the hash of a new token for a device, beside those it has, and returns the token, which cannot be had again. */
export async function addDeviceToken(file: string, deviceId: string): Promise<string> {
  const fault =
    idFault('the device id', deviceId) ||
    (/^#|^\s|\s$/.test(deviceId) ? 'the device id: begins with "#" or ends in space' : '');
  if (fault !== '') throw new LinesideError('INVALID_ARGUMENT', fault);
  const token = newToken();
  await rewrite(file, (text) => `${text}${deviceId} ${digestOf(token).toString('hex')}\n`);
  return token;
}

/** All tokens of a device. NOT_FOUND where it has none. */
export async function revokeDeviceTokens(file: string, deviceId: string): Promise<void> {
  await rewrite(file, (text) => {
    const lines = text.split('\n');
    const kept = lines.filter((line) => !parseDeviceTokens(file, line).some((token) => token.deviceId === deviceId));
    if (kept.length === lines.length) throw new LinesideError('NOT_FOUND', `"${deviceId}" has no token in ${file}`);
    return kept.join('\n');
  });
}

/** A file anew, flushed, then renamed over the old one. */
async function rewrite(file: string, change: (text: string) => string): Promise<void> {
  const before = await readFile(file, 'utf8').catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return '';
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  });
  parseDeviceTokens(file, before);
  const text = change(before === '' || before.endsWith('\n') ? before : `${before}\n`);
  const temporary = join(dirname(file), `.collector-tokens-${process.pid}.tmp`);
  let handle: FileHandle | undefined;
  try {
    handle = await open(temporary, 'w', 0o640);
    await keepOwner(handle, file);
    await handle.writeFile(text);
    await handle.sync();
    await handle.close();
    await rename(temporary, file);
  } catch (error) {
    await handle?.close().catch(() => undefined);
    await rm(temporary, { force: true });
    throw new LinesideError('CONFIG_INVALID', `cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Root runs the command, the collector reads the file as another user: else nobody could push from now on. A new one gets its directory's group. */
async function keepOwner(handle: FileHandle, file: string): Promise<void> {
  const { uid, gid } = await handle.stat();
  const old = await stat(file).catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (old !== undefined) await handle.chmod(old.mode & 0o777);
  const owner = old?.uid ?? uid;
  const group = old?.gid ?? (await stat(dirname(file))).gid;
  if (owner !== uid || group !== gid) await handle.chown(owner, group);
}
