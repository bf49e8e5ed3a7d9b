/**
 * `lineside setup apply`: the technician's files on the boot partition, put into effect. Everything is judged before
 * anything is touched; then all of it, the box's identity and its claim token included, goes in place in one
 * transaction; the secrets leave the card last. A plug pulled at any moment leaves the old state or the new one, and the
 * next start ends what was begun.
 */

import { withTokenLock } from '../../shared/auth/token-file.ts';
import { FILE_MODE, listTokens, newToken, roles, type StoredToken, tokensText } from '../../shared/auth/tokens.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Box, etc, SERVICE_GROUP } from '../box.ts';
import { findIdentity, needsRenewal, planIdentity, wantedNames } from '../identity/identity.ts';
import { type Change, commit, finish } from '../transaction.ts';
import { type CardFile, type Document, decode, findOnCard, readDocument, unixText } from './card.ts';
import { settleCard } from './card-writes.ts';
import { judgeConfig, networkFaults } from './config-faults.ts';
import { fixedAddresses } from './network-files.ts';
import { claimNote, issueText } from './notices.ts';
import { judgeSetup, type Setup } from './setup-file.ts';
import { CLAIM } from './setup-keys.ts';
import { type Plan, planSetup, storedSecrets } from './setup-plan.ts';
import { withoutSecrets } from './setup-secrets.ts';
import {
  type Applied,
  appliedChange,
  closed,
  isBetween,
  kept,
  readApplied,
  readTaking,
  type SetupParts,
  sha256,
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
  withTokenLock(box.path(etc.tokens), () => applyCard(parts, faults));
  settleCard(parts, faults);
  if (faults.length > 0)
    log(`${faults.length} faults in the files of the card, nothing of them was applied: see setup-errors.txt there`);
  return faults;
}

function applyCard(parts: SetupParts, faults: string[]): void {
  const { box } = parts;
  const applied = readApplied(box);
  const setup = readSetup(parts, applied, faults);
  const config = readConfig(parts, applied, faults);
  const tokens = planTokens(parts, applied, setup?.setup);
  const plan = setup === undefined ? undefined : planSetup(box, setup.setup);
  if (setup !== undefined) faults.push(...(plan?.faults ?? []).map(setup.document.locate));
  judgeTogether(box, applied, { setup, config, tokens, plan }, faults);
  const isGood = faults.length === 0;
  const wanted = isGood ? { setup, config, tokens, plan } : { tokens: planTokens(parts, applied, undefined) };
  commitAll(parts, applied, wanted);
}

interface ReadSetup {
  readonly setup: Setup;
  readonly document: Document;
  readonly hash: string;
  readonly taking: Taking | undefined;
}

interface ReadConfig {
  readonly text: string;
  readonly document: Document;
  readonly hash: string;
}

/** undefined: nothing to apply, since there is no file, or it was applied before, or is faulty. */
function readSetup({ boot, box }: SetupParts, applied: Applied, faults: string[]): ReadSetup | undefined {
  const name = 'setup.toml';
  const file = fileOrFault(boot, name, faults);
  if (file === undefined) return undefined;
  // A file whose secrets are half gone counts as the one without them, and is made so at the end.
  const taking = readTaking(box);
  const bytes = taking !== undefined && isBetween(taking, file.bytes) ? taking.after : file.bytes;
  const hash = sha256(bytes);
  if (hash === applied.files[name]) return undefined;
  const read = documentOf(name, bytes, faults);
  if (read === undefined) return undefined;
  const { setup, faults: found } = judgeSetup(read.document.table);
  faults.push(...found.map(read.document.locate));
  try {
    const text = withoutSecrets(read.text);
    if (text === undefined) return { setup, document: read.document, hash, taking: undefined };
    const after = Buffer.from(text);
    return { setup, document: read.document, hash: sha256(after), taking: { before: bytes, after } };
  } catch (error) {
    faults.push(`${name}: ${messageOf(error)}`);
    return undefined;
  }
}

function readConfig({ boot }: SetupParts, applied: Applied, faults: string[]): ReadConfig | undefined {
  const name = 'lineside.toml';
  const file = fileOrFault(boot, name, faults);
  if (file === undefined) return undefined;
  const hash = sha256(file.bytes);
  if (hash === applied.files[name]) return undefined;
  const read = documentOf(name, file.bytes, faults);
  return read === undefined ? undefined : { ...read, hash };
}

function fileOrFault(boot: string, name: 'setup.toml' | 'lineside.toml', faults: string[]): CardFile | undefined {
  const found = findOnCard(boot, name);
  if (found.kind === 'fault') faults.push(`${name}: ${found.message}`);
  return found.kind === 'file' ? found : undefined;
}

function documentOf(
  name: 'setup.toml' | 'lineside.toml',
  bytes: Buffer,
  faults: string[],
): { readonly text: string; readonly document: Document } | undefined {
  const decoded = decode(bytes);
  if ('message' in decoded) {
    faults.push(`${name}: ${decoded.message}`);
    return undefined;
  }
  const document = readDocument(name, decoded.text);
  if ('message' in document) {
    faults.push(document.message);
    return undefined;
  }
  return { text: decoded.text, document };
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
  readonly config?: ReadConfig | undefined;
  readonly plan?: Plan | undefined;
  readonly tokens: TokenPlan;
}

/** What can only be judged by both files and the box. */
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
  const addresses = setup === undefined ? applied.addresses : fixedAddresses(setup.setup.network);
  const stored = (box.text(etc.hostname) ?? '').trim();
  const hostname = setup === undefined || setup.setup.hostname === '' ? stored : setup.setup.hostname;
  const identity = identityFor(parts, wantedNames(hostname, addresses));
  const changes: Change[] = [...identity.changes, ...(plan?.changes ?? [])];
  if (tokens.tokens.length + tokens.before.length > 0) {
    const content = tokensText(tokens.tokens);
    changes.push({ place: etc.tokens, content, mode: FILE_MODE, group: SERVICE_GROUP });
  }
  if (config !== undefined) changes.push({ place: etc.config, content: unixText(config.text), mode: 0o644 });
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
  changes.push(appliedChange({ files, claimed: true, addresses, granted: grantedBy(setup, applied) }));
  commit(box, disk, changes);
  for (const note of [...identity.notes, ...tokens.notes]) log(note);
  for (const name of ['setup.toml', 'lineside.toml'] as const) {
    if (files[name] !== applied.files[name]) log(`${name} is applied`);
  }
}

function grantedBy(setup: ReadSetup | undefined, applied: Applied): readonly string[] {
  if (setup === undefined) return applied.granted;
  return setup.setup.tokens.flatMap(({ hash }) => (hash === '' ? [] : [hash]));
}

function identityFor(
  { box, clock }: SetupParts,
  names: readonly string[],
): Pick<Identified, 'file' | 'changes' | 'notes'> {
  const nowMs = clock.wallMs();
  const found = findIdentity(box);
  if (found.kind === 'none') return { ...planIdentity(box, names, nowMs), notes: ['the box has an identity now'] };
  if (found.kind === 'damaged') {
    const fate = found.authority === undefined ? 'a new one, to be trusted again' : 'made whole by the same authority';
    return {
      ...planIdentity(box, names, nowMs, found.authority),
      notes: [`the identity was damaged (${found.what}): ${fate}`],
    };
  }
  const { identity } = found;
  if (!needsRenewal(identity, names, nowMs)) return { file: identity, changes: [], notes: [] };
  return {
    ...planIdentity(box, names, nowMs, identity.authority),
    notes: ['the certificate is renewed, by the same authority'],
  };
}

type Identified = ReturnType<typeof planIdentity> & { readonly notes: readonly string[] };
