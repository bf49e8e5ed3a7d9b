/**
 * The daemon's view of the tokens file: notices changes automatically, so that adding and revoking need no restart. Reads
 * on the thread pool, never on the thread of the UART, which does not wait for the card.
 */
import { timingSafeEqual } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { digestOf, parseTokens, type Role } from './tokens.ts';

/** How long a revoked token may still be accepted; also bounds the cost of checks. (For an unknown token the file is checked at once.) */
const RECHECK_MS = 1_000;

export interface TokenOwner {
  readonly name: string;
  readonly roles: readonly Role[];
}

export interface KnownToken<Owner> {
  readonly owner: Owner;
  readonly digest: Buffer;
}

export interface WatchOptions<Owner> {
  readonly file: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Throws if the text is no such file. */
  readonly parse: (file: string, text: string) => readonly KnownToken<Owner>[];
  /** A missing file has no tokens, which is an answer; a file that cannot be understood is none. */
  readonly mayBeMissing: boolean;
}

/** A file of tokens, the box's or the collector's. */
export class TokenWatch<Owner> {
  readonly #o: WatchOptions<Owner>;
  #known: readonly KnownToken<Owner>[] = [];
  #isReadable = false;
  /** The file's identity when it was last read: a write is a rename, so the inode changes too. */
  #version = '';
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(options: WatchOptions<Owner>) {
    this.#o = options;
  }

  /** The token's owner; undefined: there is no such token. */
  async find(token: string): Promise<Owner | undefined> {
    await this.#refreshIfOld();
    const owner = this.#ownerOf(token);
    if (owner !== undefined) return owner;
    // It may have been added a moment ago. Only a check that begins now is sure to see it; one in flight is not.
    await this.#checking;
    await this.#refresh();
    return this.#ownerOf(token);
  }

  /** Whose token a gRPC call bears in its `authorization` metadata. Rejects with UNAUTHENTICATED. */
  async authenticate(authorization: readonly string[]): Promise<Owner> {
    const token = /^bearer +(\S+)$/i.exec(authorization[0] ?? '')?.[1];
    if (authorization.length !== 1 || token === undefined) {
      throw new LinesideError('UNAUTHENTICATED', 'the authorization metadata is not "Bearer TOKEN"');
    }
    const owner = await this.find(token);
    if (owner === undefined) throw new LinesideError('UNAUTHENTICATED', 'no such token, or it was revoked');
    return owner;
  }

  /** The owners of all tokens; undefined: the file cannot be read. */
  async owners(): Promise<readonly Owner[] | undefined> {
    await this.#refreshIfOld();
    return this.#isReadable ? this.#known.map(({ owner }) => owner) : undefined;
  }

  #ownerOf(token: string): Owner | undefined {
    const digest = digestOf(token);
    let owner: Owner | undefined;
    // Every entry is compared, in constant time each.
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) owner = known.owner;
    return owner;
  }

  async #refreshIfOld(): Promise<void> {
    if (this.#o.clock.monoMs() - this.#checkedAtMs >= RECHECK_MS) await this.#refresh();
  }

  /** One check at a time, shared by all callers. */
  #refresh(): Promise<void> {
    this.#checking ??= this.#look().finally(() => {
      this.#checkedAtMs = this.#o.clock.monoMs();
      this.#checking = undefined;
    });
    return this.#checking;
  }

  /** A file that cannot be read or understood lets no caller in: the last tokens may be the ones just revoked. */
  async #look(): Promise<void> {
    const { file, logger, parse, mayBeMissing } = this.#o;
    let version = '';
    try {
      const { ino, size, mtimeMs, ctimeMs } = await stat(file);
      version = `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
      if (version === this.#version) return;
      this.#known = parse(file, await readFile(file, 'utf8'));
      this.#isReadable = true;
    } catch (error) {
      this.#known = [];
      const missing = mayBeMissing && systemCode(error) === 'ENOENT';
      this.#isReadable = missing;
      if (missing) version = 'missing';
      else version ||= 'unreadable';
      if (version !== this.#version && !missing) {
        logger.error('the tokens file cannot be read: no token is accepted', {
          file,
          error: messageOf(error),
        });
      }
    }
    this.#version = version;
  }
}

/** The tokens of the box. */
export class TokenReader extends TokenWatch<TokenOwner> {
  constructor(file: string, clock: Clock, logger: Logger) {
    super({ file, clock, logger, parse: ownersIn, mayBeMissing: true });
  }
}

function ownersIn(file: string, text: string): KnownToken<TokenOwner>[] {
  return parseTokens(file, text).map(({ name, roles, sha256 }) => ({
    owner: { name, roles },
    digest: Buffer.from(sha256, 'hex'),
  }));
}
