/** What the set-up remembers from one start to the next, in files of root's alone. */
import { join } from 'node:path';
import type { Clock } from '../../shared/base/clock.ts';
import { type Box, etc } from '../box.ts';
import type { Disk } from '../disk.ts';
import { type Change, closed } from '../transaction.ts';
import type { CardName } from './card.ts';

export interface SetupParts {
  readonly boot: string;
  readonly box: Box;
  readonly disk: Disk;
  readonly clock: Clock;
  /** A line for the journal: never with a secret in it. */
  readonly log: (line: string) => void;
}

export const kept = {
  applied: join(etc.setup, 'applied.json'),
  /** The claim token, until it is revoked: the console shows it. */
  claim: join(etc.setup, 'claim'),
  /** Exists once claim.txt was written to the card: a claim.txt that was removed there is not written again. */
  claimOnCard: join(etc.setup, 'claim-on-card'),
  issue: join(etc.setup, 'issue'),
  /** The card's file before and after its secrets were taken out, while that is not done. */
  taking: join(etc.setup, 'taking.json'),
} as const;

export interface Applied {
  /** SHA-256 of each file that was applied, as it is on the card without its secrets. */
  readonly files: Readonly<Partial<Record<CardName, string>>>;
  /** A claim token was made, or was not wanted: there is never a second one. */
  readonly claimed: boolean;
  /** Fixed addresses, for the certificate. */
  readonly addresses: readonly string[];
  /** Tokens that setup.toml gave by their hashes: what of them is not on the box any more was revoked there. */
  readonly granted: readonly string[];
}

const nothing: Applied = { files: {}, claimed: false, addresses: [], granted: [] };

export function readApplied(box: Box): Applied {
  return { ...nothing, ...box.object(kept.applied) };
}

export function appliedChange(applied: Applied): Change {
  return closed(kept.applied, `${JSON.stringify(applied)}\n`);
}

export interface Taking {
  readonly before: Buffer;
  readonly after: Buffer;
}

export function readTaking(box: Box): Taking | undefined {
  const stored = box.object(kept.taking) as { before: string; after: string } | undefined;
  if (stored === undefined) return undefined;
  return { before: Buffer.from(stored.before, 'base64'), after: Buffer.from(stored.after, 'base64') };
}

export function takingChange({ before, after }: Taking): Change {
  return closed(kept.taking, JSON.stringify({ before: before.toString('base64'), after: after.toString('base64') }));
}

/** Whether the file is what an interrupted overwriting leaves: every byte that of before, or of after. */
export function isBetween({ before, after }: Taking, bytes: Buffer): boolean {
  if (bytes.length !== after.length || before.length !== after.length) return false;
  return bytes.every((byte, i) => byte === after[i] || byte === before[i]);
}
