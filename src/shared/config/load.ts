/** Reads the configuration: file, environment, credentials; once, at start. */
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { LinesideError, readFaultOf, systemCode } from '../base/errors.ts';
import { readText } from '../base/files.ts';
import { type Config, keys, variableOf } from './config.ts';
import { isCredential } from './credential.ts';
import { deviceIdIn, deviceIdOf } from './device-id.ts';
import { isExposed } from './exposure.ts';
import type { Value } from './key.ts';
import { type ListenAddress, showListen } from './listen.ts';
import { type Environment, linesOf, parseConfig, parseToml, readableToml } from './parse.ts';
import { type Purpose, startFaults } from './start-checks.ts';
import type { Fault, Setting, Settings } from './values.ts';

const DEFAULT_FILE = '/etc/lineside/lineside.toml';
/** Written by "lineside identity". */
const IDENTITY_FILE = '/etc/lineside/identity.json';

export interface Loaded {
  readonly config: Config;
  /** Each key's value as it was written, and where it came from. */
  readonly settings: Settings;
  /** The file that was read; undefined: there is none, and all is from the environment and the defaults. */
  readonly file: string | undefined;
  /** Old names of keys that are used, each with the new one. */
  readonly warnings: readonly string[];
  /** Keys that were set and count for nothing, since systemd handed over the sockets to listen on. */
  readonly unused: readonly string[];
  /** Sockets that systemd handed over and that are not served, each with the reason. */
  readonly unserved: readonly string[];
}

/** The addresses of the sockets that systemd handed over: they replace those that the configuration names. */
export type Handed = Readonly<Partial<Record<'grpc' | 'http', readonly ListenAddress[]>>>;

/**
 * `named`: --config; else LINESIDE_CONFIG; else the default file, which may be missing. Throws CONFIG_INVALID with every
 * fault. Files and exposure are judged for the processes that are to start, which may run as different users; not for
 * 'locate', since the first token is added before the service can start, and a technician may not read its private key.
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
  const { settings, faults, warnings } = parsed;
  const { config, unserved } = withoutUnservable(withHanded(parsed.config, handed));
  const all = [...faults, ...startFaults(config, String(settings.get('webhooks.key_file')?.value), purpose)];
  if (all.length > 0) throw invalid({ file, text }, all, purpose);
  const unused = (['grpc', 'http'] as const)
    .filter((section) => handed[section] !== undefined)
    .map((section) => `${section}.listen`)
    .filter((path) => settings.get(path)?.source !== 'default');
  return {
    config: withOwnId(config),
    settings,
    file: text === undefined ? undefined : file,
    warnings,
    unused,
    unserved,
  };
}

/** A fault with its place: `path` is '' if the line itself is no TOML, `line` undefined if the fault is in no line. */
export interface LocatedFault extends Fault {
  readonly line: number | undefined;
}

/**
 * A text in place of the file: every fault that load() would find for 'check', also those behind a line that is no TOML. Without a
 * fault, load() takes it.
 */
export function checkText(text: string, env: Environment) {
  const { content, faults: unread } = readableToml(text);
  const { config, settings, faults, warnings } = parseConfig(content, env);
  const ofFiles =
    unread.length > 0 ? [] : startFaults(config, String(settings.get('webhooks.key_file')?.value), 'check');
  const lines = linesOf(text);
  const located: LocatedFault[] = [
    ...unread.map(({ line, message }) => ({ path: '', line, message })),
    ...[...faults, ...ofFiles].map(({ path, message }) => ({ path, line: lines.get(path), message })),
  ];
  const lineOf = (path: string): number | undefined => lines.get(path);
  return { config: withOwnId(config), settings, warnings, faults: located, lineOf };
}

/** The configuration as far as it can be understood. */
export interface TolerantLoad extends Pick<Loaded, 'config' | 'settings'> {
  /** The faults of other keys, for standard error; '': none. */
  readonly warning: string;
}

/**
 * For commands beside the service, which must work while the file has a fault that does not concern them. `needed`: the keys
 * that the command depends on. Throws CONFIG_INVALID if one of these has a fault: its default would be another place.
 */
export function loadTolerant(path: string | undefined, env: Environment, needed: readonly string[]): TolerantLoad {
  const { file, text } = readNamed(path, env);
  const { content, faults: unread } = text === undefined ? { content: {}, faults: [] } : readableToml(text);
  const { config, settings, faults, warnings } = parseConfig(content, env);
  const all = [...unread, ...faults];
  const isFromFile = (key: string): boolean => settings.get(key)?.source !== 'environment';
  const inTheWay = [
    ...faults.filter(({ path }) => needed.some((key) => isFromFile(key) && concerns(path, key))),
    ...unread.filter(({ lines }) => needed.some((key) => isFromFile(key) && mentions(lines, key))),
  ];
  if (inTheWay.length > 0) throw invalid({ file, text }, inTheWay, 'locate');
  const found = all.length === 0 ? [] : [`the configuration ${file} has faults:\n${listed(text ?? '', all)}`];
  const warning = [...found, ...warnings].join('\n');
  return { config: withOwnId(config), settings, warning };
}

/** The key itself, its variable, or the table that it stands in. */
function concerns(faulty: string, key: string): boolean {
  return faulty === key || faulty === variableOf(key) || key.startsWith(`${faulty}.`);
}

function mentions(lines: string, key: string): boolean {
  return new RegExp(`\\b${key.slice(key.lastIndexOf('.') + 1)}\\b`).test(lines);
}

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
 * Addresses of the LAN whose sockets systemd opened need TLS. If no certificate is configured they are left alone: a box that
 * does not log because a certificate is missing would be the worse one. A certificate that cannot be used is the listener's to report.
 */
function withoutUnservable(config: Config): { config: Config; unserved: readonly string[] } {
  const unserved: string[] = [];
  const keep = (listen: readonly ListenAddress[], insecure: boolean): readonly ListenAddress[] =>
    listen.filter((address) => {
      const drop = config.tls.certFile === '' && !insecure && address.fd !== undefined && isExposed([address]);
      if (drop) unserved.push(`${showListen(address)}: tls.cert_file is not set`);
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

/** systemd gives the hub a directory of its own beside the line's; without systemd they share data.dir. */
export function hubDirOf({ config, settings }: Pick<Loaded, 'config' | 'settings'>): string {
  const own = `${config.data.dir}-hub`;
  return settings.get('data.dir')?.source === 'default' && existsSync(own) ? own : config.data.dir;
}

/** That of the box's identity, where it has one: it stays when the box is restored on another card. */
export function ownDeviceId(identityFile = IDENTITY_FILE): string {
  return deviceIdIn(readText(identityFile)) ?? deviceIdOf(readText('/etc/machine-id'), hostname());
}

/** A key as `lineside config check` prints it. */
interface ShownKey extends Setting {
  readonly path: string;
  readonly isDefault: boolean;
}

export function describeConfig({ config, settings }: Pick<Loaded, 'config' | 'settings'>): ShownKey[] {
  const { grpc, http, device, webhooks } = config;
  // Relative sockets are shown where they are, a name that was made as it was made.
  const inEffect = new Map<string, Value>([
    ['grpc.listen', grpc.listen.map(showListen)],
    ['http.listen', http.listen.map(showListen)],
    ['device.id', device.id],
    ['webhooks.key_file', webhooks.keyFile],
  ]);
  return keys.map(({ path, schema }) => {
    const { value, source } = settings.get(path) ?? { value: schema.default, source: 'default' };
    const isDefault = showValue(value) === showValue(schema.default);
    return { path, value: inEffect.get(path) ?? value, source, isDefault };
  });
}

/** Keys whose file only systemd can supply, which `lineside config check` cannot check. */
export function describeCredentials({ settings }: Pick<Loaded, 'settings'>): string[] {
  return [...settings].flatMap(([path, { value }]) =>
    typeof value === 'string' && isCredential(value)
      ? [`${path} = "${value}" is handed over by systemd when the service starts`]
      : [],
  );
}

export function keyLine({ path, value, source }: Omit<ShownKey, 'isDefault'>): string {
  return `${path} = ${showValue(value)}  (from ${source})`;
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
    throw new LinesideError('CONFIG_INVALID', `cannot read the configuration ${file}: ${readFaultOf(error)}`, {
      cause: error,
    });
  }
}

/** `text`: of the file, for the lines of the faults; the environment's have none. */
function invalid({ file, text = '' }: ConfigText, faults: readonly Fault[], purpose: Purpose): LinesideError {
  const what = faults.length === 1 ? 'a fault' : `${faults.length} faults`;
  return new LinesideError('CONFIG_INVALID', `cannot use the configuration ${file}: ${what}\n${listed(text, faults)}`, {
    // That command has just printed all of it.
    hint: purpose === 'check' ? '' : 'Try: lineside config check',
    reasons: faults.map(({ path, message }) => `${path}: ${message}`),
  });
}

function listed(text: string, faults: readonly Fault[]): string {
  const lines = linesOf(text);
  return faults
    .map(({ path, message }) => {
      const line = lines.get(path);
      return `  ${line === undefined ? '' : `line ${line}: `}${path}: ${message}`;
    })
    .join('\n');
}
