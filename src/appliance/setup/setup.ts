/**
 * `lineside setup apply`: puts the technician's files on the boot partition into effect. Everything is checked before
 * anything is changed; then all files, the box's identity and its claim token included, are replaced in one
 * transaction; the secrets leave the card last. A plug pulled at any moment leaves the old state or the new one, and the
 * next start ends what was begun.
 */

import { FILE_MODE, listTokens, newToken, roles, type StoredToken, tokensText } from '../../shared/auth/tokens.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { withFileLock } from '../../shared/base/file-lock.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Box, etc, SERVICE_GROUP } from '../box.ts';
import { sha256 } from '../hash.ts';
import { authorityOf, findIdentity, needsRenewal, planIdentity, wantedNames } from '../identity/identity.ts';
import { type Change, closed, commit, finish, open } from '../transaction.ts';
import { type CardName, type Document, decode, findOnCard, readDocument, unixText } from './card.ts';
import { claimNote, issueText, settleCard } from './card-writes.ts';
import { fixedAddresses } from './network-files.ts';
import { judgeSetup, type Setup } from './setup-file.ts';
import { CLAIM, withoutSecrets } from './setup-keys.ts';
import { judgeConfig, networkFaults, type Plan, planSetup, storedSecrets } from './setup-plan.ts';
import {
  type Applied,
  appliedChange,
  isBetween,
  kept,
  readApplied,
  readTaking,
  type SetupParts,
  type Taking,
  takingChange,
} from './setup-state.ts';
import { grant } from './token-specs.ts';

/** Every fault of the two files, with its place; none: both are in effect. */
export function applySetup(parts: SetupParts): readonly string[] {
  const { box, disk, log } = parts;
  if (finish(box, disk)) log('what an earlier start had begun is done');
  const faults: string[] = [];
  // A token that an operator adds meanwhile must not be lost.
  withFileLock(box.path(etc.tokens), () => applyCard(parts, faults));
  settleCard(parts, faults);
  if (faults.length > 0)
    log(`${faults.length} faults in the files of the card, nothing of them was applied: see setup-errors.txt there`);
  return faults;
}

function applyCard(parts: SetupParts, faults: string[]): void {
  const { box } = parts;
  const applied = readApplied(box);
  const setup = readSetup(parts, applied, faults);
  const config = readCard('lineside.toml', parts, applied, faults);
  const tokens = planTokens(parts, applied, setup?.setup);
  const plan = setup === undefined ? undefined : planSetup(box, setup.setup);
  if (setup !== undefined) faults.push(...(plan?.faults ?? []).map(setup.document.locate));
  judgeTogether(box, applied, { setup, config, tokens, plan }, faults);
  const isGood = faults.length === 0;
  const wanted = isGood ? { setup, config, tokens, plan } : { tokens: planTokens(parts, applied, undefined) };
  commitAll(parts, applied, wanted);
}

interface CardDocument {
  readonly bytes: Buffer;
  readonly hash: string;
  readonly text: string;
  readonly document: Document;
}

interface ReadSetup extends Pick<CardDocument, 'hash' | 'document'> {
  readonly setup: Setup;
  readonly taking: Taking | undefined;
}

/** undefined: nothing to apply, since there is no file, or it was applied before, or is faulty. */
function readSetup(parts: SetupParts, applied: Applied, faults: string[]): ReadSetup | undefined {
  // A file whose secrets are half gone counts as the one without them, and is made so at the end.
  const taking = readTaking(parts.box);
  const settled = (bytes: Buffer): Buffer => (taking !== undefined && isBetween(taking, bytes) ? taking.after : bytes);
  const read = readCard('setup.toml', parts, applied, faults, settled);
  if (read === undefined) return undefined;
  const { document, bytes, hash } = read;
  const { setup, faults: found } = judgeSetup(document.table);
  faults.push(...found.map(document.locate));
  try {
    const text = withoutSecrets(read.text);
    if (text === undefined) return { setup, document, hash, taking: undefined };
    const after = Buffer.from(text);
    return { setup, document, hash: sha256(after), taking: { before: bytes, after } };
  } catch (error) {
    faults.push(`setup.toml: ${messageOf(error)}`);
    return undefined;
  }
}

/** undefined as for readSetup. `settled`: what the bytes on the card count as. */
function readCard(
  name: CardName,
  { boot }: SetupParts,
  applied: Applied,
  faults: string[],
  settled = (bytes: Buffer): Buffer => bytes,
): CardDocument | undefined {
  const file = findOnCard(boot, name);
  if (file.kind === 'fault') faults.push(`${name}: ${file.message}`);
  if (file.kind !== 'file') return undefined;
  const bytes = settled(file.bytes);
  const hash = sha256(bytes);
  if (hash === applied.files[name]) return undefined;
  const decoded = decode(bytes);
  const document = 'message' in decoded ? { message: `${name}: ${decoded.message}` } : readDocument(name, decoded.text);
  if (!('message' in document) && 'text' in decoded) return { bytes, hash, text: decoded.text, document };
  if ('message' in document) faults.push(document.message);
  return undefined;
}

interface TokenPlan {
  readonly before: readonly StoredToken[];
  readonly tokens: readonly StoredToken[];
  readonly notes: readonly string[];
  /** Of the claim token: made now, or the one of an earlier start while it is good. */
  readonly claim: string | undefined;
}

/** The first start makes the claim token, unless setup.toml says to revoke it. */
function planTokens({ box, clock }: SetupParts, applied: Applied, setup: Setup | undefined): TokenPlan {
  const before = listTokens(box.path(etc.tokens));
  const at = instantOfMs(clock.wallMs());
  const granted = grant(before, setup?.tokens ?? [], at, sha256, applied.granted);
  const isRevoked = setup?.tokens.some(({ name, revoke }) => name === CLAIM && revoke) === true;
  const has = (tokens: readonly StoredToken[]): boolean => tokens.some(({ name }) => name === CLAIM);
  if (applied.claimed || isRevoked || has(before)) {
    // A restored box has the tokens of another time: that one may be of the same name.
    const stored = box.text(kept.claim);
    const isGood =
      stored !== undefined && granted.tokens.some((one) => one.name === CLAIM && one.sha256 === sha256(stored));
    return { ...granted, before, claim: isGood ? stored : undefined };
  }
  const claim = newToken();
  const entry: StoredToken = { name: CLAIM, roles, sha256: sha256(claim), createdAt: at };
  return { before, tokens: [...granted.tokens, entry], notes: [...granted.notes, claimNote], claim };
}

interface Wanted {
  readonly setup?: ReadSetup | undefined;
  readonly config?: CardDocument | undefined;
  readonly plan?: Plan | undefined;
  readonly tokens: TokenPlan;
}

function judgeTogether(box: Box, applied: Applied, { setup, config, tokens, plan }: Wanted, faults: string[]): void {
  const secrets = plan?.secrets ?? storedSecrets(box);
  if (config !== undefined) {
    const found = judgeConfig(box, config.document.table, { tokens: tokens.tokens, secrets });
    faults.push(...found.map(config.document.locate));
  } else if (setup !== undefined) {
    faults.push(...lockedOut(box, applied.claimed, tokens).map(setup.document.locate));
  }
}

/**
 * A configuration that is in effect is not judged again, but for what revoking tokens would do to it: no client could come
 * in any more. `hasRun`: it was so before, which is the operator's will.
 */
function lockedOut(box: Box, hasRun: boolean, { before, tokens }: TokenPlan): Fault[] {
  const read = readDocument('lineside.toml', box.text(etc.config) ?? '');
  if ('message' in read) return [];
  const { config } = parseConfig(read.table, {});
  const anyone: StoredToken = { name: '', roles, sha256: '', createdAt: '' };
  const other = [...networkFaults(config, [anyone]), ...(hasRun ? networkFaults(config, before) : [])];
  const known = new Set(other.map(({ message }) => message));
  return networkFaults(config, tokens)
    .filter(({ message }) => !known.has(message))
    .map(({ path }) => {
      const role = path === 'grpc.listen' ? 'viewer or operator' : 'reader, writer, admin, viewer or operator';
      return { path: 'token[0]', message: `no token of role ${role} would be left, and no client could reach the box` };
    });
}

function commitAll(parts: SetupParts, applied: Applied, { setup, config, plan, tokens }: Wanted): void {
  const { box, disk, log } = parts;
  const { addresses, granted } = setup === undefined ? applied : rememberedOf(setup.setup);
  const stored = (box.text(etc.hostname) ?? '').trim();
  const hostname = setup === undefined || setup.setup.hostname === '' ? stored : setup.setup.hostname;
  const identity = identityFor(parts, wantedNames(hostname, addresses));
  const changes: Change[] = [...identity.changes, ...(plan?.changes ?? [])];
  if (tokens.tokens.length + tokens.before.length > 0) {
    const content = tokensText(tokens.tokens);
    changes.push({ place: etc.tokens, content, mode: FILE_MODE, group: SERVICE_GROUP });
  }
  if (config !== undefined) changes.push(open(etc.config, unixText(config.text)));
  changes.push(
    closed(kept.claim, tokens.claim),
    closed(kept.issue, issueText({ hostname, identity: identity.file, claim: tokens.claim })),
  );
  if (setup?.taking !== undefined) changes.push(takingChange(setup.taking));
  const files = {
    ...applied.files,
    ...(setup !== undefined && { 'setup.toml': setup.hash }),
    ...(config !== undefined && { 'lineside.toml': config.hash }),
  };
  changes.push(appliedChange({ files, claimed: true, addresses, granted }));
  commit(box, disk, changes);
  for (const note of [...identity.notes, ...tokens.notes]) log(note);
  for (const name of ['setup.toml', 'lineside.toml'] as const) {
    if (files[name] !== applied.files[name]) log(`${name} is applied`);
  }
}

function rememberedOf({ network, tokens }: Setup): Pick<Applied, 'addresses' | 'granted'> {
  return { addresses: fixedAddresses(network), granted: tokens.map(({ hash }) => hash).filter((hash) => hash !== '') };
}

function identityFor({ box, clock }: SetupParts, names: readonly string[]) {
  const nowMs = clock.wallMs();
  const found = findIdentity(box);
  if (found.kind === 'whole' && !needsRenewal(found.identity, names, nowMs))
    return { file: found.identity, changes: [], notes: [] };
  const authority = authorityOf(found);
  const notes = {
    none: 'the box has an identity now',
    whole: 'the certificate is renewed, by the same authority',
    damaged: `the identity was damaged (${found.kind === 'damaged' ? found.what : ''}): ${
      authority === undefined ? 'a new one, to be trusted again' : 'made whole by the same authority'
    }`,
  };
  return { ...planIdentity(box, names, nowMs, authority), notes: [notes[found.kind]] };
}
