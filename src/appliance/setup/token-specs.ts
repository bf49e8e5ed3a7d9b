/** The [[token]] sections of setup.toml, and what becomes of the stored tokens. Pure. */

import { isRole, LOCAL, type Role, roles, type StoredToken } from '../../shared/auth/tokens.ts';
import type { Fault } from '../../shared/config/values.ts';
import { CLAIM, TAKEN } from './setup-keys.ts';

/** One section. `token` is '' where it is given by its hash, "*" where the box took it earlier. */
export interface TokenSpec {
  readonly name: string;
  readonly roles: readonly string[];
  readonly token: string;
  readonly hash: string;
  readonly revoke: boolean;
}

/** 32 random bytes, as "lineside token add" makes them: weaker ones could be guessed from their hash. */
const TOKEN = /^lsd_[A-Za-z0-9_-]{43}$/;

export function tokenFaults(specs: readonly TokenSpec[]): Fault[] {
  return specs.flatMap((spec, i) => {
    const fault = (key: string, message: string): Fault => ({ path: `token[${i}].${key}`, message });
    const { name } = spec;
    if (name === '') return [fault('name', 'is missing')];
    if (specs.findIndex((other) => other.name === name) !== i) return [fault('name', `"${name}" is there twice`)];
    return [...nameFaults(spec, fault), ...contentFaults(spec, fault)];
  });
}

type Say = (key: string, message: string) => Fault;

function nameFaults({ name, revoke }: TokenSpec, fault: Say): Fault[] {
  if (name === LOCAL) return [fault('name', `"${LOCAL}" is who comes through the Unix socket: take another name`)];
  if (name === CLAIM && !revoke) return [fault('name', `"${CLAIM}" is made by the box itself: take another name`)];
  return [];
}

function contentFaults({ roles: wanted, token, hash, revoke }: TokenSpec, fault: Say): Fault[] {
  if (revoke) return token === '' || token === TAKEN ? [] : [fault('revoke', 'a token that is given is not revoked')];
  const faults: Fault[] = [];
  if (wanted.length === 0) faults.push(fault('roles', `is missing: ${roles.join(', ')}`));
  for (const role of wanted) {
    if (!isRole(role)) faults.push(fault('roles', `no such role: "${role}"; roles: ${roles.join(', ')}`));
  }
  if (token === '' && hash === '') faults.push(fault('token', 'is missing (or its hash)'));
  if (token !== '' && hash !== '') faults.push(fault('hash', 'and token are both there: remove one'));
  if (token !== '' && token !== TAKEN && !TOKEN.test(token)) {
    faults.push(fault('token', 'must be "lsd_" and 43 of A-Z, a-z, 0-9, "-", "_"'));
  }
  return faults;
}

/**
 * Tokens of other names stay: they were added on the box. One that was taken earlier keeps its hash, and one that was
 * revoked on the box since is not brought back. `earlier`: hashes that the file gave when it was last applied. Each note is worth
 * a line in the log.
 */
export function grant(
  stored: readonly StoredToken[],
  specs: readonly TokenSpec[],
  createdAt: string,
  digest: (token: string) => string,
  earlier: readonly string[],
) {
  const notes: string[] = [];
  let tokens = [...stored];
  for (const { name, roles: wanted, token, hash, revoke } of specs) {
    const old = tokens.find((one) => one.name === name);
    tokens = tokens.filter((one) => one !== old);
    if (revoke) {
      if (old !== undefined) notes.push(`token "${name}" is revoked`);
      continue;
    }
    const sha256 = hash !== '' ? hash : token === TAKEN ? old?.sha256 : digest(token);
    if (sha256 === undefined || (sha256 === hash && old?.sha256 !== hash && earlier.includes(hash))) {
      // One of this name that was made on the box since is another one.
      if (old !== undefined) tokens.push(old);
      notes.push(`token "${name}" was revoked on the box since it was taken, and stays so`);
      continue;
    }
    const granted = [...new Set(wanted.filter(isRole))] satisfies Role[];
    const at = old?.sha256 === sha256 ? old.createdAt : createdAt;
    tokens.push({ name, roles: granted, sha256, createdAt: at });
  }
  return { tokens, notes };
}
