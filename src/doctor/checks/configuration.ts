/** Checks of the configuration and of the files that it names: the file itself, tokens, webhooks' settings, certificates. */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { hostname, networkInterfaces } from 'node:os';
import { Redactor } from '../../shared/base/redactor.ts';
import type { Config } from '../../shared/config/config.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Finding, type Findings, failed, needsRoot, ok, orFine, skipped, warning } from '../check.ts';
import {
  type CheckContext,
  type ConfigFile,
  type ConfiguredContext,
  isOnNetwork,
  readNamedFile,
  type Tokens,
} from '../check-context.ts';
import { readSafely } from '../safe-files.ts';

const redactor = new Redactor();

const faultsShown = 20;

export function judgeConfiguration({ file, kind, trouble, faults, settings }: ConfigFile): Finding[] {
  // The name of a missing file may be a secret that was typed in its place.
  const name = kind === 'missing' ? 'the named configuration file' : redactor.text(file);
  const why = redactor.text(trouble);
  const set = [...settings.values()].filter(({ source }) => source !== 'default').length;
  switch (kind) {
    case 'denied':
      return [skipped(`${name} cannot be read by this user`, 'Run it as root, or as a member of group lineside.')];
    case 'missing':
    case 'odd':
      return [failed(`${name}: ${why}`, 'Name the configuration by --config FILE.')];
    case 'unparsable':
      return [failed(`${name} is no TOML: ${why}`, 'Correct it; "lineside config check" says when it is sound.')];
    case 'read':
    case 'defaults':
      return orFine(
        faults
          .slice(0, faultsShown)
          .map((fault) => failed(shownFault(fault), 'Correct this key; "lineside config check" lists every fault.')),
        kind === 'defaults' ? `no ${name}: defaults and environment` : `${name}: ${set} keys set, no fault`,
      );
  }
}

/** Omits the written value if it may be a secret: of a key that names a file, or of an unknown key. */
export function shownFault({ path, message }: Fault): string {
  const isFree = /_file$|username|bootstrap|collector|^LINESIDE_/.test(path) || /no such (?:key|section)/.test(message);
  const bare = message
    .replace('"credential:NAME"', 'a credential')
    .replace(/,? not ["'].*$/s, '')
    .replace(/^["'].*["']:? ?/s, '');
  const said = isFree ? bare : message;
  return `${redactor.text(path)} ${redactor.text(said)}`;
}

export async function checkTokens({ tokens, config }: CheckContext): Promise<Finding[]> {
  return judgeTokens(tokens, isOnNetwork(config));
}

export function judgeTokens({ kind, what, tokens }: Tokens, isExposed: boolean): Finding[] {
  if (kind === 'denied') return [needsRoot('the tokens file')];
  if (kind === 'odd')
    return [failed(`the tokens file cannot be read: ${what}`, 'Let auth.tokens_file name a plain file.')];
  if (kind === 'damaged')
    return [
      failed(
        `the tokens file is damaged (${what}): no client is let in from the network`,
        'Restore it from a backup, or remove it and add the tokens again.',
      ),
    ];
  // No colon behind "tokens": what follows one is taken out of every finding.
  if (tokens.length > 0) return [ok(`${tokens.length} stored (${byRole(tokens)})`)];
  return isExposed
    ? [warning('no token stored, and the service is on the network', 'Add one: lineside token add NAME --role ROLE.')]
    : [ok('no token stored')];
}

function byRole(tokens: Tokens['tokens']): string {
  const counts = new Map<string, number>();
  for (const role of tokens.flatMap(({ roles }) => roles)) counts.set(role, (counts.get(role) ?? 0) + 1);
  return [...counts].map(([role, count]) => `${count} ${role}`).join(', ');
}

/** Wider than any site's own network: the guard against calls inwards would be off. */
const widestPrefix = { v4: 8, v6: 16 } as const;

export async function checkWebhooks({ config }: ConfiguredContext): Promise<Finding[]> {
  const { allowCidrs, allowPorts, caFile } = config.webhooks;
  const wide = allowCidrs.filter((range) => {
    const prefix = Number(range.split('/')[1] ?? 128);
    return prefix < (range.includes(':') ? widestPrefix.v6 : widestPrefix.v4);
  });
  const findings = wide.map((range) =>
    warning(
      `webhooks.allow_cidrs has ${range}: subscribers nearly anywhere inside may be called`,
      "Name the site's own networks, such as 192.168.7.0/24.",
    ),
  );
  if (allowPorts.includes(80))
    findings.push(warning('webhooks.allow_ports has 80', 'Webhooks are https; port 80 is not needed.'));
  const read = caFile === '' ? undefined : await readNamedFile('webhooks.ca_file', caFile);
  if (read !== undefined && !Buffer.isBuffer(read)) findings.push(read);
  const open = allowCidrs.length === 0 ? 'public addresses alone' : `public addresses and ${allowCidrs.join(', ')}`;
  return orFine(findings, `${open}, ports ${allowPorts.join(', ') || 'none'}`);
}

// Certificates: the service's own with its key, and the authorities that it trusts.

const dayMs = 86_400_000;
/** Enough time to renew a certificate. */
const soonDays = 30;

/** `key` undefined: it cannot be seen. */
function judgeOwn(cert: X509Certificate, key: KeyObject | undefined, nowMs: number): Finding[] {
  const { names, addresses } = ownNames();
  const uncovered = [
    ...names.filter((name) => cert.checkHost(name) === undefined),
    ...addresses.filter((address) => cert.checkIP(address) === undefined),
  ];
  const shown = uncovered.slice(0, 4).join(', ');
  const isForNone = uncovered.length > 0 && uncovered.length === names.length + addresses.length;
  const fits = key === undefined ? '' : ', its key fits';
  return orFine(
    ownFaults(cert, key, nowMs, isForNone ? shown : ''),
    `${ownName} is valid until ${dayOf(cert.validToDate)}${fits}${shown === '' ? '' : `; not for ${shown}`}`,
  );
}

const ownName = 'the certificate of tls.cert_file';
const renewOwn = 'Make a new one ("lineside identity renew" makes the box\'s own), then systemctl restart lineside.';

/** `forNone`: names of this machine if it is for none of them; ''. */
function* ownFaults(cert: X509Certificate, key: KeyObject | undefined, nowMs: number, forNone: string): Findings {
  yield* judgeDates(ownName, cert, nowMs, renewOwn);
  if (key !== undefined && !cert.checkPrivateKey(key))
    yield failed(
      'tls.key_file holds the key of another certificate',
      'Name the key and the certificate that belong together.',
    );
  if (forNone !== '')
    yield warning(
      `${ownName} is for no name and no address of this machine (${forNone})`,
      `${renewOwn} Clients otherwise need --server-name or --fingerprint.`,
    );
}

function* judgeDates(what: string, cert: X509Certificate, nowMs: number, again: string): Findings {
  const [from, to] = [cert.validFromDate, cert.validToDate];
  const days = Math.floor((to.getTime() - nowMs) / dayMs);
  if (nowMs < from.getTime())
    yield failed(
      `${what} is not valid before ${dayOf(from)}`,
      "Mostly this machine's clock is wrong: see the check of the clock.",
    );
  else if (nowMs > to.getTime()) yield failed(`${what} has expired on ${dayOf(to)}`, again);
  else if (days < soonDays)
    yield warning(`${what} ends within ${days + 1} ${days === 0 ? 'day' : 'days'}, on ${dayOf(to)}`, again);
}

function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}

/** The file that `key` names, with the certificates in it. */
function judgeAuthorities(key: string, certs: readonly X509Certificate[], nowMs: number): Finding {
  const what = `the file of ${key}`;
  const renew = "Get the authority's new certificate.";
  if (certs.length === 0) return failed(`${what} holds no certificate`, 'Put PEM certificates of authorities there.');
  const alive = certs.filter((cert) => nowMs <= cert.validToDate.getTime());
  if (alive.length === 0) return failed(`${what} holds expired certificates alone`, renew);
  if (certs.every((cert) => nowMs < cert.validFromDate.getTime()))
    return failed(`${what} holds certificates that are not valid yet`, "Mostly this machine's clock is wrong.");
  if (!certs.some((cert) => cert.ca))
    return warning(`${what} holds no certificate of an authority`, 'A server certificate trusts nothing but itself.');
  const soon = alive.filter((cert) => cert.validToDate.getTime() - nowMs < soonDays * dayMs);
  return soon.length > 0
    ? warning(`${what}: certificates that end within ${soonDays} days: ${soon.length} of ${certs.length}`, renew)
    : ok(`${what}: ${certs.length} ${certs.length === 1 ? 'authority' : 'authorities'}`);
}

/** undefined: one of them is damaged. */
function certificatesIn(pem: string): X509Certificate[] | undefined {
  try {
    return (pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
      (one) => new X509Certificate(one),
    );
  } catch {
    return undefined;
  }
}

export async function checkCertificates(context: ConfiguredContext): Promise<Finding[]> {
  const { certFile } = context.config.tls;
  const findings = certFile === '' ? [] : await ownFindings(context, certFile);
  for (const [key, { value }] of context.configFile.settings) {
    if (!key.endsWith('ca_file') || typeof value !== 'string' || value === '') continue;
    findings.push(await authorityFinding(context, key, value));
  }
  return findings.length > 0 ? findings : [skipped('no certificate is configured: the service is not on the network')];
}

async function authorityFinding({ clock }: CheckContext, key: string, file: string): Promise<Finding> {
  const read = await readNamedFile(key, file);
  if (!Buffer.isBuffer(read)) return read;
  const certs = certificatesIn(read.toString('latin1'));
  return certs === undefined
    ? failed(`the file of ${key} holds a damaged certificate`, 'Put it there again.')
    : judgeAuthorities(key, certs, clock.wallMs());
}

async function ownFindings({ config, clock }: ConfiguredContext, file: string): Promise<Finding[]> {
  if (!isOnNetwork(config) && (await readSafely(file)).kind === 'missing')
    return [
      skipped('tls.cert_file names no file yet: the box has no identity', '"lineside identity create" makes one.'),
    ];
  const read = await readNamedFile('tls.cert_file', file);
  if (!Buffer.isBuffer(read)) return [read];
  const [cert] = certificatesIn(read.toString('latin1')) ?? [];
  if (cert === undefined)
    return [failed('the file of tls.cert_file holds no certificate that can be read', 'Put a PEM chain there.')];
  const key = await ownKey(config);
  const nowMs = clock.wallMs();
  return 'state' in key ? [...judgeOwn(cert, undefined, nowMs), key] : judgeOwn(cert, key, nowMs);
}

async function ownKey({ tls }: Config): Promise<KeyObject | Finding> {
  const read = await readNamedFile('tls.key_file', tls.keyFile);
  if (!Buffer.isBuffer(read)) return read;
  try {
    return createPrivateKey(read);
  } catch {
    const todo = 'Put the PEM key there, without a passphrase.';
    return failed('the file of tls.key_file holds no private key that can be used', todo);
  }
}

function ownNames() {
  const name = hostname();
  const names = name.includes('.') ? [name] : [name, `${name}.local`];
  const addresses = Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? [])
      .filter(({ internal, address }) => !internal && !address.startsWith('fe80'))
      .map(({ address }) => address),
  );
  return { names, addresses };
}
