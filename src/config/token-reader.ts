/**
 * The daemon's view of the tokens file: notices changes by itself, so that adding and revoking need no restart. Reads
 * on the thread pool, never on the thread of the UART, which does not wait for the card.
 */
import { timingSafeEqual } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import { messageOf, systemCode } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { digestOf, parseTokens, type Role } from './tokens.ts';

/** How long a revoked token may still be accepted; also bounds the cost of looking. (For an unknown one it looks at once.) */
const RECHECK_MS = 1_000;

export interface TokenOwner {
  readonly name: string;
  readonly roles: readonly Role[];
}

interface Known extends TokenOwner {
  readonly digest: Buffer;
}

export class TokenReader {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #known: readonly Known[] = [];
  /** A file that is not there has no tokens, which is an answer; one that cannot be understood is none. */
  #isReadable = false;
  /** What the file looked like when it was last read: a write is a rename, so the inode changes too. */
  #version = '';
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(file: string, clock: Clock, logger: Logger) {
    this.#file = file;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Whose token it is; undefined: nobody's. */
  async find(token: string): Promise<TokenOwner | undefined> {
    if (this.#clock.monoMs() - this.#checkedAtMs >= RECHECK_MS) await this.#refresh();
    const owner = this.#ownerOf(token);
    if (owner !== undefined) return owner;
    // It may have been added a moment ago. Only a look that begins now is sure to see it; one that is under way may not be.
    await this.#checking;
    await this.#refresh();
    return this.#ownerOf(token);
  }

  /** Of all tokens; undefined: the file cannot be read, and nobody knows. */
  async owners(): Promise<readonly TokenOwner[] | undefined> {
    if (this.#clock.monoMs() - this.#checkedAtMs >= RECHECK_MS) await this.#refresh();
    return this.#isReadable ? this.#known.map(({ name, roles }) => ({ name, roles })) : undefined;
  }

  #ownerOf(token: string): TokenOwner | undefined {
    const digest = digestOf(token);
    let owner: Known | undefined;
    // Every entry is compared, in constant time each.
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) owner = known;
    return owner;
  }

  /** One look at a time; who comes meanwhile waits for the same one. */
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
      const tokens = parseTokens(this.#file, await readFile(this.#file, 'utf8'));
      this.#known = tokens.map(({ name, roles, sha256 }) => ({ name, roles, digest: Buffer.from(sha256, 'hex') }));
      this.#isReadable = true;
    } catch (error) {
      this.#known = [];
      const missing = systemCode(error) === 'ENOENT';
      this.#isReadable = missing;
      if (missing) version = 'missing';
      else version ||= 'unreadable';
      if (version !== this.#version && !missing) {
        this.#logger.error('the tokens file cannot be read: no token is accepted', {
          file: this.#file,
          error: messageOf(error),
        });
      }
    }
    this.#version = version;
  }
}
