/**
 * What the set-up leaves on the card, after everything else is safe on the box: no secrets, the claim token while it is
 * good, the faults. A card that cannot be written to is no reason to do without the rest: it is tried at every start.
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../../shared/base/errors.ts';
import { etc } from '../box.ts';
import { findIdentity } from '../identity/identity.ts';
import { findOnCard } from './card.ts';
import { claimText, errorsText } from './notices.ts';
import { isBetween, kept, readTaking, type SetupParts } from './setup-state.ts';

const CONSOLE_ISSUE = '/run/lineside-console/issue';

export function settleCard(parts: SetupParts, faults: readonly string[]): void {
  attempt(parts, 'secrets may still be in setup.toml', () => takeSecrets(parts));
  attempt(parts, 'claim.txt', () => settleClaim(parts));
  attempt(parts, 'setup-errors.txt', () => settleErrors(parts, faults));
  const { box, disk } = parts;
  const issue = box.path(CONSOLE_ISSUE);
  disk.makeDir(dirname(issue), 0o755);
  disk.write(issue, box.read(kept.issue) ?? Buffer.from(''), 0o600);
}

function attempt({ log }: SetupParts, what: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    log(`the card cannot be written to (${what}): ${messageOf(error)}`);
  }
}

/** Overwritten where it stands, flushed and read again; only then the box forgets how the file was. */
function takeSecrets({ boot, box, disk, log }: SetupParts): void {
  const taking = readTaking(box);
  if (taking === undefined) return;
  const file = findOnCard(boot, 'setup.toml');
  if (file.kind === 'file' && isBetween(taking, file.bytes)) {
    disk.overwrite(file.path, taking.after);
    if (!readFileSync(file.path).equals(taking.after)) throw new Error('it reads back otherwise than it was written');
    log('the secrets of setup.toml are on the box now, and no longer on the card');
  }
  disk.remove(box.path(kept.taking));
  disk.flushDir(box.path(etc.setup));
}

function settleClaim({ boot, box, disk }: SetupParts): void {
  const claim = box.text(kept.claim);
  const onCard = join(boot, 'claim.txt');
  if (claim === undefined) {
    removeFrom(boot, disk, onCard);
    disk.remove(box.path(kept.claimOnCard));
    return;
  }
  if (box.has(kept.claimOnCard)) return;
  const found = findIdentity(box);
  if (found.kind !== 'whole') return;
  const hostname = (box.text(etc.hostname) ?? '').trim();
  replace(boot, disk, onCard, claimText({ hostname, identity: found.identity, claim }));
  disk.write(box.path(kept.claimOnCard), Buffer.from(''), 0o600);
  disk.flushDir(box.path(etc.setup));
}

export function settleErrors({ boot, disk }: Pick<SetupParts, 'boot' | 'disk'>, faults: readonly string[]): void {
  const file = join(boot, 'setup-errors.txt');
  if (faults.length === 0) removeFrom(boot, disk, file);
  else replace(boot, disk, file, errorsText(faults));
}

type CardDisk = SetupParts['disk'];

function removeFrom(boot: string, disk: CardDisk, file: string): void {
  if (!existsSync(file)) return;
  disk.remove(file);
  disk.flushDir(boot);
}

function replace(boot: string, disk: CardDisk, file: string, text: string): void {
  const bytes = Buffer.from(text);
  if (existsSync(file) && readFileSync(file).equals(bytes)) return;
  const beside = join(boot, `${basename(file)}.new`);
  disk.write(beside, bytes, 0o600);
  disk.rename(beside, file);
  disk.flushDir(boot);
}
