/** Reads the configuration: file, environment, credentials; once, at start. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { parse, TomlError } from 'smol-toml';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import type { Config } from './config.ts';
import { deviceIdOf } from './device-id.ts';
import { exposureFaults, httpExposureFaults } from './exposure.ts';
import type { Value } from './key.ts';
import { keys } from './keys.ts';
import { showListen } from './listen.ts';
import { type Environment, parseConfig } from './parse.ts';
import type { Fault, Settings } from './settings.ts';
import { listTokens, type Role } from './tokens.ts';

const DEFAULT_FILE = '/etc/lineside/lineside.toml';

export interface Loaded {
  readonly config: Config;
  /** Each key's value as it was written, and where it came from. */
  readonly settings: Settings;
  /** The file that was read; undefined: there is none, and all is from the environment and the defaults. */
  readonly file: string | undefined;
}

/** 'line', 'hub': one process of the service; 'serve': both; 'look': only wants to know where something is. */
export type Purpose = 'serve' | 'line' | 'hub' | 'look';

/**
 * `named`: --config; else LINESIDE_CONFIG; else the default file, which may be missing. Throws CONFIG_INVALID with every
 * fault. Files and exposure are judged for the processes that are to start, which may run as different users; not for
 * 'look', since the first token is added before the service can start, and a technician may not read its private key.
 */
export function load(named: string | undefined, env: Environment, purpose: Purpose = 'serve'): Loaded {
  const wanted = named ?? env.LINESIDE_CONFIG;
  const file = wanted ?? DEFAULT_FILE;
  const text = readText(file, wanted !== undefined);
  const { config, settings, faults } = parseConfig(text === undefined ? {} : parseToml(file, text), env);
  const all = [...faults, ...startFaults(config, purpose)];
  if (all.length > 0) throw invalid(file, all);
  const device = { ...config.device, id: config.device.id === '' ? ownDeviceId() : config.device.id };
  return { config: { ...config, device }, settings, file: text === undefined ? undefined : file };
}

/** Whether each process could start, as far as files and exposure go. */
function startFaults(config: Config, purpose: Purpose): Fault[] {
  if (purpose === 'look') return [];
  const faults = tlsFileFaults(config);
  if (purpose !== 'hub') faults.push(...exposureFaults(config, countTokens(config, LINE_ROLES)));
  if (purpose !== 'line') {
    faults.push(...kafkaFileFaults(config), ...unreadable('webhooks.ca_file', config.webhooks.caFile));
    faults.push(...httpExposureFaults(config, countTokens(config, HUB_ROLES)));
  }
  return faults;
}

const LINE_ROLES: readonly Role[] = ['viewer', 'operator'];
/** The refdata-* roles open scopes, and nothing without one of these. */
const HUB_ROLES: readonly Role[] = ['reader', 'writer', 'admin'];

function ownDeviceId(): string {
  try {
    return deviceIdOf(readFileSync('/etc/machine-id', 'utf8'), hostname());
  } catch {
    return deviceIdOf('', hostname());
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

/** As TOML writes it. */
function showValue(value: Value): string {
  return typeof value === 'object'
    ? `[${value.map((item) => JSON.stringify(item)).join(', ')}]`
    : JSON.stringify(value);
}

function readText(file: string, mustExist: boolean): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT' && !mustExist) return undefined;
    throw new LinesideError('CONFIG_INVALID', `cannot read the configuration: ${messageOf(error)}`, { cause: error });
  }
}

function parseToml(file: string, text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const where = error instanceof TomlError ? `${file}:${error.line}:${error.column}` : file;
    const what = messageOf(error).split('\n')[0] ?? '';
    throw new LinesideError('CONFIG_INVALID', `${where}: ${what}`, { cause: error });
  }
}

function tlsFileFaults({ tls }: Config): Fault[] {
  return [
    ...unreadable('tls.cert_file', tls.certFile),
    ...unreadable('tls.key_file', tls.keyFile),
    ...unreadable('tls.client_ca_file', tls.clientCaFile),
  ];
}

function kafkaFileFaults({ kafka }: Config): Fault[] {
  const faults = unreadable('kafka.ca_file', kafka.caFile);
  const path = 'kafka.password_file';
  try {
    if (kafka.passwordFile !== '' && readPassword(kafka.passwordFile) === '') {
      faults.push({ path, message: `${kafka.passwordFile} is empty` });
    }
  } catch (error) {
    faults.push({ path, message: `cannot be read: ${messageOf(error)}` });
  }
  return faults;
}

/** A file that holds a secret and perhaps a newline behind it. */
export function readPassword(file: string): string {
  return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

/** One fault, or none; '' is no file. */
function unreadable(path: string, file: string): Fault[] {
  if (file === '') return [];
  try {
    accessSync(file, constants.R_OK);
    return [];
  } catch (error) {
    return [{ path, message: `cannot be read: ${messageOf(error)}` }];
  }
}

function countTokens(config: Config, wanted: readonly Role[]): number {
  try {
    return listTokens(config.auth.tokensFile).filter(({ roles }) => roles.some((role) => wanted.includes(role))).length;
  } catch {
    // Only exposure is judged here; the token reader reports a damaged file, and lets nobody in.
    return 0;
  }
}

function invalid(file: string, faults: readonly Fault[]): LinesideError {
  const lines = faults.map(({ path, message }) => `  ${path}: ${message}`);
  const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`;
  return new LinesideError('CONFIG_INVALID', `the configuration (${file}) has ${count}:\n${lines.join('\n')}`, {
    hint: 'mend them and see "lineside config check"',
  });
}
