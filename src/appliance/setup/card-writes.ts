/**
 * What the set-up leaves on the card, after everything else is safe on the box: no secrets, the claim token while it is
 * good, the faults. A card that cannot be written to is no reason to do without the rest: it is tried at every start.
 */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../../shared/base/errors.ts';
import { etc } from '../box.ts';
import { findIdentity, type IdentityFile } from '../identity/identity.ts';
import { findOnCard } from './card.ts';
import { CLAIM } from './setup-keys.ts';
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

// What people read on the card and on the screen at the box.

export interface Shown {
  readonly hostname: string;
  readonly identity: IdentityFile;
  /** undefined if it does not exist or was revoked. */
  readonly claim: string | undefined;
}

/** Filled in by the console, which knows them. */
const ADDRESSES = '@ADDRESSES@';

/** FAT is read where Notepad is, too. */
const cardText = (lines: readonly string[]): string => `${lines.join('\r\n')}\r\n`;

/** The screen at the box has 80 columns: a fingerprint takes two lines. */
export function issueText({ hostname, identity, claim }: Shown): string {
  const half = identity.caFingerprint.length / 2;
  const [first, second] = [identity.caFingerprint.slice(0, half + 1), identity.caFingerprint.slice(half + 1)];
  const lines = [
    `lineside ${hostname}`,
    '',
    `  Device       ${identity.deviceId}`,
    `  Addresses    ${ADDRESSES}`,
    `  Fingerprint  ${first}`,
    `               ${second}`,
  ];
  if (claim !== undefined) lines.push(`  Claim token  ${claim}`);
  return `${lines.join('\n')}\n`;
}

function claimText({ hostname, identity, claim = '' }: Shown): string {
  return cardText([
    `The claim token of lineside ${hostname} (${identity.deviceId}): a person who has it may do everything with the box.`,
    'Make tokens of your own and end this one, as the manual says; then this file goes.',
    '',
    `Fingerprint: ${identity.caFingerprint}`,
    `Token:       ${claim}`,
    '',
    'From a laptop on the same network, with the token alone in a file token.txt:',
    `lineside status --host ${hostname}.local --fingerprint ${identity.caFingerprint} --token-file token.txt`,
  ]);
}

function errorsText(faults: readonly string[]): string {
  return cardText([
    'These faults were found. Nothing of setup.toml and lineside.toml was applied: the box keeps its settings.',
    'Correct them and start the box with the card again; this file goes once all is well.',
    '',
    ...faults,
  ]);
}

export const claimNote = `a token "${CLAIM}" with every role was made: claim.txt on the card and the screen show it`;
