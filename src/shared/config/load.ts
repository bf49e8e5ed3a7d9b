/** Reads the configuration: file, environment, credentials; once, at start. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { parse, TomlError } from 'smol-toml';
import { listTokens, type Role } from '../auth/tokens.ts';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import type { Config, ListenAddress } from './config.ts';
import { credentialAt, isCredential } from './credential.ts';
import { deviceIdIn, deviceIdOf } from './device-id.ts';
import { exposureFaults, httpExposureFaults, isExposed } from './exposure.ts';
import type { Value } from './key.ts';
import { keys, variableOf } from './keys.ts';
import { showListen } from './listen.ts';
import { type Environment, parseConfig } from './parse.ts';
import type { Fault, Settings } from './settings.ts';

const DEFAULT_FILE = '/etc/lineside/lineside.toml';
/** Written by "lineside identity". */
const IDENTITY_FILE = '/etc/lineside/identity.json';

export interface Loaded {
  readonly config: Config;
  /** Each key's value as it was written, and where it came from. */
  readonly settings: Settings;
  /** The file that was read; undefined: there is none, and all is from the environment and the defaults. */
  readonly file: string | undefined;
  /** Keys that were set and count for nothing, since systemd handed over the sockets to listen on. */
  readonly unused: readonly string[];
  /** Sockets that systemd handed over and that are not served, each with the reason. */
  readonly unserved: readonly string[];
}

/**
 * 'line', 'hub': one process of the service; 'serve': both; 'check': both, judged by who is not the service and is
 * handed no credentials; 'look': only wants to know where something is.
 */
export type Purpose = 'serve' | 'line' | 'hub' | 'check' | 'look';

/** The addresses of the sockets that systemd handed over: they replace those that the configuration names. */
export type Handed = Readonly<Partial<Record<'grpc' | 'http', readonly ListenAddress[]>>>;

/**
 * `named`: --config; else LINESIDE_CONFIG; else the default file, which may be missing. Throws CONFIG_INVALID with every
 * fault. Files and exposure are judged for the processes that are to start, which may run as different users; not for
 * 'look', since the first token is added before the service can start, and a technician may not read its private key.
 */
export function load(
  named: string | undefined,
  env: Environment,
  purpose: Purpose = 'serve',
  handed: Handed = {},
): Loaded {
  return loadText(readNamed(named, env), env, purpose, handed);
}

export interface ConfigText {
  /** Its name, for messages. */
  readonly file: string;
  /** undefined: there is no such file. */
  readonly text: string | undefined;
}

export function loadText({ file, text }: ConfigText, env: Environment, purpose: Purpose, handed: Handed = {}): Loaded {
  const parsed = parseConfig(text === undefined ? {} : parseToml(file, text), env);
  const { settings, faults } = parsed;
  const { config, unserved } = withoutUnservable(withHanded(parsed.config, handed), purpose);
  const all = [...faults, ...startFaults(config, String(settings.get('webhooks.key_file')?.value), purpose)];
  if (all.length > 0) throw invalid(file, all);
  const unused = (['grpc', 'http'] as const)
    .filter((section) => handed[section] !== undefined)
    .map((section) => `${section}.listen`)
    .filter((path) => settings.get(path)?.source !== 'default');
  return { config: withOwnId(config), settings, file: text === undefined ? undefined : file, unused, unserved };
}

/** The configuration as far as it can be understood. */
export interface Looked extends Pick<Loaded, 'config' | 'settings'> {
  /** What is wrong with the rest of it, for standard error; '': nothing. */
  readonly warning: string;
}

/**
 * For commands beside the service, which must work while the file has a fault that does not concern them. `needed`: the keys
 * that the command depends on. Throws CONFIG_INVALID if one of these has a fault: its default would be another place.
 */
export function look(path: string | undefined, env: Environment, needed: readonly string[]): Looked {
  const { file, text } = readNamed(path, env);
  const { content, faults: unread } = text === undefined ? { content: {}, faults: [] } : readableToml(text);
  const { config, settings, faults } = parseConfig(content, env);
  const all = [...unread, ...faults];
  const isFromFile = (key: string): boolean => settings.get(key)?.source !== 'environment';
  const inTheWay = [
    ...faults.filter(({ path }) => needed.some((key) => isFromFile(key) && concerns(path, key))),
    ...unread.filter(({ lines }) => needed.some((key) => isFromFile(key) && mentions(lines, key))),
  ];
  if (inTheWay.length > 0) throw invalid(file, inTheWay);
  const warning = all.length === 0 ? '' : `the configuration (${file}) has ${faultList(all)}`;
  return { config: withOwnId(config), settings, warning };
}

/** The key itself, its variable, or the table that it stands in. */
function concerns(faulty: string, key: string): boolean {
  return faulty === key || faulty === variableOf({ path: key }) || key.startsWith(`${faulty}.`);
}

function mentions(lines: string, key: string): boolean {
  return new RegExp(`\\b${key.slice(key.lastIndexOf('.') + 1)}\\b`).test(lines);
}

/** Its own name where the configuration gives none. */
function withOwnId(config: Config): Config {
  return config.device.id === '' ? { ...config, device: { ...config.device, id: ownDeviceId() } } : config;
}

function withHanded(config: Config, { grpc, http }: Handed): Config {
  return {
    ...config,
    grpc: grpc === undefined ? config.grpc : { ...config.grpc, listen: grpc },
    http: http === undefined ? config.http : { ...config.http, listen: http },
  };
}

/**
 * Addresses of the LAN whose sockets systemd opened need TLS. Where there is none that can be used they are left alone: a box
 * that does not log for want of a certificate would be the worse one.
 */
function withoutUnservable(config: Config, purpose: Purpose): { config: Config; unserved: readonly string[] } {
  const why =
    config.tls.certFile === '' ? 'tls.cert_file is not set' : showFaults(tlsFileFaults(config, purpose)).join('; ');
  const unserved: string[] = [];
  const keep = (listen: readonly ListenAddress[], insecure: boolean): readonly ListenAddress[] =>
    listen.filter((address) => {
      const drop = why !== '' && !insecure && address.fd !== undefined && isExposed([address]);
      if (drop) unserved.push(`${showListen(address)}: ${why}`);
      return !drop;
    });
  const { grpc, http } = config;
  const served = {
    ...config,
    grpc: { ...grpc, listen: keep(grpc.listen, grpc.insecure) },
    http: { ...http, listen: keep(http.listen, http.insecure) },
  };
  return { config: served, unserved };
}

/**
 * Whether each process could start, as far as files and exposure go. `keyFile`: webhooks.key_file as it is written; as
 * a credential it is not made where it is missing.
 */
function startFaults(config: Config, keyFile: string, purpose: Purpose): Fault[] {
  if (purpose === 'look') return [];
  const { grpc, http, webhooks } = config;
  const hasLine = purpose !== 'hub';
  const hasHub = purpose !== 'line';
  const faults: Fault[] = [];
  // The service starts without a certificate that it can use: this machine's own addresses are served, and the log is kept.
  if (purpose === 'check' && (isExposed(grpc.listen) || isExposed(http.listen))) {
    faults.push(...tlsFileFaults(config, purpose));
  }
  if (hasLine) faults.push(...exposureFaults(config, countTokens(config, LINE_ROLES)));
  if (hasHub) {
    faults.push(...kafkaFileFaults(config, purpose), ...unreadable('webhooks.ca_file', webhooks.caFile, purpose));
    faults.push(...upstreamFileFaults(config, purpose));
    if (isCredential(keyFile)) faults.push(...unreadable('webhooks.key_file', webhooks.keyFile, purpose));
    faults.push(...httpExposureFaults(config, countTokens(config, HUB_ROLES)));
  }
  return faults;
}

export const LINE_ROLES: readonly Role[] = ['viewer', 'operator'];
/** Of the reference data, and of the console. The refdata-* roles open scopes, and nothing without one of these. */
export const HUB_ROLES: readonly Role[] = ['reader', 'writer', 'admin', ...LINE_ROLES];

/** That of the box's identity, where it has one: it stays when the box is restored on another card. */
export function ownDeviceId(identityFile = IDENTITY_FILE): string {
  return deviceIdIn(textOf(identityFile)) ?? deviceIdOf(textOf('/etc/machine-id') ?? '', hostname());
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Lines `key = value  (from file|environment|default)`, as `lineside config check` prints them. */
export function describeConfig(loaded: Loaded): string[] {
  const { grpc, http, device, webhooks } = loaded.config;
  // Relative sockets are shown where they are, a name that was made as it was made.
  const inEffect = new Map<string, Value>([
    ['grpc.listen', grpc.listen.map(showListen)],
    ['http.listen', http.listen.map(showListen)],
    ['device.id', device.id],
    ['webhooks.key_file', webhooks.keyFile],
  ]);
  return keys.map(({ path, schema }) => {
    const { value, source } = loaded.settings.get(path) ?? { value: schema.default, source: 'default' };
    return `${path} = ${showValue(inEffect.get(path) ?? value)}  (from ${source})`;
  });
}

/** Keys whose file only systemd can supply, which `lineside config check` cannot look at. */
export function describeCredentials({ settings }: Pick<Loaded, 'settings'>): string[] {
  return [...settings].flatMap(([path, { value }]) =>
    typeof value === 'string' && isCredential(value)
      ? [`# not checked: ${path} = "${value}" is handed over by systemd when the service starts`]
      : [],
  );
}

/** systemd reads the directory of secrets when it starts a service, and never again. */
function credentialHint(file: string): string {
  const name = credentialAt(file);
  return name === undefined
    ? ''
    : ` (systemd handed over no credential "${name}": check the name; if its file is new, restart the service)`;
}

/** As TOML writes it. */
function showValue(value: Value): string {
  return typeof value === 'object'
    ? `[${value.map((item) => JSON.stringify(item)).join(', ')}]`
    : JSON.stringify(value);
}

function readNamed(named: string | undefined, env: Environment): ConfigText {
  const wanted = named ?? env.LINESIDE_CONFIG;
  const file = wanted ?? DEFAULT_FILE;
  try {
    return { file, text: readFileSync(file, 'utf8') };
  } catch (error) {
    if (systemCode(error) === 'ENOENT' && wanted === undefined) return { file, text: undefined };
    throw new LinesideError('CONFIG_INVALID', `cannot read the configuration: ${messageOf(error)}`, { cause: error });
  }
}

function parseToml(file: string, text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const where = error instanceof TomlError ? `${file}:${error.line}:${error.column}` : file;
    throw new LinesideError('CONFIG_INVALID', `${where}: ${firstLine(error)}`, { cause: error });
  }
}

/** Lines that were left out. They are never shown: a secret that was typed there by mistake would be, too. */
interface Unread extends Fault {
  readonly lines: string;
}

/**
 * A file without the lines that are not TOML. A broken header takes its table with it: the keys below it would otherwise
 * count for the table before.
 */
function readableToml(text: string): { content: Record<string, unknown>; faults: Unread[] } {
  const lines = text.split('\n');
  const faults: Unread[] = [];
  // Each pass leaves out a line or more.
  for (let passes = 0; passes <= lines.length; passes++) {
    try {
      return { content: parse(lines.join('\n')), faults };
    } catch (error) {
      const at = error instanceof TomlError ? error.line - 1 : 0;
      const isHeader = /^\s*\[/.test(lines[at] ?? '');
      const next = lines.findIndex((line, i) => i > at && /^\s*\[/.test(line));
      const end = !isHeader ? at + 1 : next === -1 ? lines.length : next;
      faults.push({ path: `line ${at + 1}`, message: firstLine(error), lines: lines.slice(at, end).join('\n') });
      lines.fill('', at, end);
    }
  }
  return { content: {}, faults };
}

function firstLine(error: unknown): string {
  return messageOf(error).split('\n')[0] ?? '';
}

function tlsFileFaults({ tls }: Config, purpose: Purpose): Fault[] {
  return [
    ...unreadable('tls.cert_file', tls.certFile, purpose),
    ...unreadable('tls.key_file', tls.keyFile, purpose),
    ...unreadable('tls.client_ca_file', tls.clientCaFile, purpose),
  ];
}

function kafkaFileFaults({ kafka }: Config, purpose: Purpose): Fault[] {
  return [
    ...unreadable('kafka.ca_file', kafka.caFile, purpose),
    ...secretFaults('kafka.password_file', kafka.passwordFile, purpose),
  ];
}

function upstreamFileFaults({ upstream }: Config, purpose: Purpose): Fault[] {
  if (upstream.to !== 'collector') return [];
  return [
    ...unreadable('upstream.collector_ca_file', upstream.collectorCaFile, purpose),
    ...secretFaults('upstream.collector_token_file', upstream.collectorTokenFile, purpose),
  ];
}

/** A file that is empty is a fault, as is one that cannot be read. */
function secretFaults(path: string, file: string, purpose: Purpose): Fault[] {
  if (isCredential(file)) return unreadable(path, file, purpose);
  try {
    return file === '' || readPassword(file) !== '' ? [] : [{ path, message: `${file} is empty` }];
  } catch (error) {
    return [{ path, message: `cannot be read: ${messageOf(error)}${credentialHint(file)}` }];
  }
}

/** A file that holds a secret and perhaps a newline behind it. */
export function readPassword(file: string): string {
  return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

/** One fault, or none; '' is no file. */
function unreadable(path: string, file: string, purpose: Purpose): Fault[] {
  if (file === '') return [];
  if (isCredential(file)) {
    const message = `${file} is handed over by systemd, and was not (CREDENTIALS_DIRECTORY is not set)`;
    return purpose === 'check' ? [] : [{ path, message }];
  }
  try {
    accessSync(file, constants.R_OK);
    return [];
  } catch (error) {
    return [{ path, message: `cannot be read: ${messageOf(error)}${credentialHint(file)}` }];
  }
}

function countTokens(config: Config, wanted: readonly Role[]): number {
  try {
    return listTokens(config.auth.tokensFile).filter(({ roles }) => roles.some((role) => wanted.includes(role))).length;
  } catch {
    // Only exposure is judged here; the token reader reports a damaged file, and lets no caller in.
    return 0;
  }
}

function showFaults(faults: readonly Fault[]): string[] {
  return faults.map(({ path, message }) => `${path}: ${message}`);
}

function invalid(file: string, faults: readonly Fault[]): LinesideError {
  return new LinesideError('CONFIG_INVALID', `the configuration (${file}) has ${faultList(faults)}`, {
    hint: 'Correct them and see "lineside config check".',
    reasons: faults.map(({ path, message }) => `${path}: ${message}`),
  });
}

function faultList(faults: readonly Fault[]): string {
  const lines = showFaults(faults).map((line) => `  ${line}`);
  return `${faults.length === 1 ? 'a fault' : `${faults.length} faults`}:\n${lines.join('\n')}`;
}
