/** What the set-up tells people: on the card, and on the screen at the box. Pure. */
import type { IdentityFile } from '../identity/identity.ts';
import { CLAIM } from './setup-keys.ts';

export interface Shown {
  readonly hostname: string;
  readonly identity: IdentityFile;
  /** undefined: there is none, or it was revoked. */
  readonly claim: string | undefined;
}

/** Filled in by the console, which knows them. */
const ADDRESSES = '@ADDRESSES@';

/** FAT is read where Notepad is, too. */
const cardText = (lines: readonly string[]): string => `${lines.join('\r\n')}\r\n`;

/** The screen at the box has 80 columns: a fingerprint goes on two lines. */
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

export function claimText({ hostname, identity, claim = '' }: Shown): string {
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

export function errorsText(faults: readonly string[]): string {
  return cardText([
    'These faults were found. Nothing of setup.toml and lineside.toml was applied: the box keeps its settings.',
    'Correct them and start the box with the card again; this file goes once all is well.',
    '',
    ...faults,
  ]);
}

export const claimNote = `a token "${CLAIM}" with every role was made: claim.txt on the card and the screen show it`;
