/** What the checks inspect: this machine, and the configuration of the service on it. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import { Inventory, type Port } from '../line/port/inventory.ts';
import { parseTokens, type StoredToken } from '../shared/auth/tokens.ts';
import { type Clock, endsWithin } from '../shared/base/clock.ts';
import { messageOf } from '../shared/base/errors.ts';
import type { Config } from '../shared/config/config.ts';
import { isCredential } from '../shared/config/credential.ts';
import { exposureFaults, isExposed } from '../shared/config/exposure.ts';
import { hubDirOf, ownDeviceId } from '../shared/config/load.ts';
import { type Environment, parseConfig } from '../shared/config/parse.ts';
import type { Fault, Settings } from '../shared/config/values.ts';
import { type CheckName, type Finding, failed, needsRoot } from './check.ts';
import { readSafely, wordsOf } from './safe-files.ts';

export const usualConfigFile = '/etc/lineside/lineside.toml';

export const machineRoots = {
  proc: '/proc',
  sys: '/sys',
  dev: '/dev',
  boot: ['/boot/firmware', '/boot'],
  etc: '/etc',
  run: '/run',
};

export interface ConfigFile {
  readonly file: string;
  /** 'defaults': the usual file is missing, which is no fault. */
  readonly kind: 'read' | 'defaults' | 'missing' | 'denied' | 'odd' | 'unparsable';
  /** What is wrong with the file as a whole; ''. */
  readonly trouble: string;
  readonly faults: readonly Fault[];
  readonly settings: Settings;
}

export interface Tokens {
  readonly kind: 'read' | 'missing' | 'denied' | 'odd' | 'damaged';
  readonly what: string;
  readonly tokens: readonly StoredToken[];
}

export interface CheckContext {
  readonly clock: Clock;
  readonly env: Environment;
  readonly roots: typeof machineRoots;
  readonly version: string;
  readonly isRoot: boolean;
  readonly configFile: ConfigFile;
  /** With the defaults where keys are faulty; undefined: nothing is known of it. */
  readonly config: Config | undefined;
  /** Where refdata.db is: systemd gives the hub a directory of its own. */
  readonly hubDir: string;
  /** The configuration is that of systemd's units. */
  readonly isUnits: boolean;
  readonly tokens: Tokens;
}

export type ConfiguredContext = CheckContext & { readonly config: Config };

export interface Check extends CheckName {
  /** The usual one unless it has several steps. */
  readonly limitMs?: number;
  readonly run: (context: CheckContext) => Promise<Iterable<Finding>>;
}

/** Without a configuration such a check has no finding: the check of the configuration says why. */
export function configured(run: (context: ConfiguredContext) => Promise<Iterable<Finding>>): Check['run'] {
  return async (context) => (context.config === undefined ? [] : run({ ...context, config: context.config }));
}

/** The result of `work`, or `late` at the limit. */
export async function within<T>(clock: Clock, limitMs: number, work: Promise<T>, late: T): Promise<T> {
  let result = late;
  await endsWithin(
    clock,
    limitMs,
    work.then((found) => (result = found)),
  );
  return result;
}

/** Bytes of a file that a key names, or the finding that it cannot be read; `what` is unknown if only root may read it. */
export async function readNamedFile(key: string, file: string, what = `the file of ${key}`): Promise<Buffer | Finding> {
  const read = await readSafely(fileBehind(key, file));
  if (read.kind === 'text') return read.bytes;
  if (read.kind === 'denied') return needsRoot(what);
  return failed(`the file of ${key} cannot be read: ${wordsOf(read)}`, 'Correct the path.');
}

export interface ContextOptions {
  readonly named: string | undefined;
  readonly env: Environment;
  readonly clock: Clock;
  readonly version: string;
}

export async function readContext(options: ContextOptions): Promise<CheckContext> {
  const { named, env, clock, version } = options;
  const isRoot = process.geteuid?.() === 0;
  const { configFile, config } = await readConfiguration(named, env);
  const tokens = config === undefined ? noTokens : await readTokens(config.auth.tokensFile);
  const faults = config === undefined || tokens.kind === 'denied' ? [] : exposureFaults(config, tokens.tokens);
  const hubDir = config === undefined ? '' : hubDirOf({ config, settings: configFile.settings });
  const isUnits = configFile.file === usualConfigFile && existsSync('/run/systemd/system');
  const judged = { ...configFile, faults: [...configFile.faults, ...faults] };
  return { clock, env, roots: machineRoots, version, isRoot, configFile: judged, config, hubDir, isUnits, tokens };
}

async function readConfiguration(named: string | undefined, env: Environment) {
  const wanted = named ?? env['LINESIDE_CONFIG'];
  const file = resolve(wanted ?? usualConfigFile);
  const read = await readSafely(file);
  const unread = (kind: ConfigFile['kind'], trouble: string) => ({
    configFile: { file, kind, trouble, faults: [], settings: new Map() },
    config: undefined,
  });
  if (read.kind === 'denied') return unread('denied', 'this user may not read it');
  if (read.kind === 'missing' && wanted !== undefined) return unread('missing', 'there is no such file');
  if (read.kind === 'odd') return unread('odd', `it is ${read.what}`);
  if (read.kind === 'failed') return unread('odd', `it cannot be read (${read.code})`);
  if (read.kind === 'text' && !read.whole) return unread('odd', 'it is larger than any configuration');
  let table: Record<string, unknown> = {};
  try {
    if (read.kind === 'text') table = parse(read.bytes.toString('utf8'));
  } catch (error) {
    const where = error instanceof TomlError ? `line ${error.line}, column ${error.column}` : 'somewhere';
    // The first line alone: the others quote the file.
    return unread('unparsable', `${where}: ${messageOf(error).split('\n')[0] ?? ''}`);
  }
  const { config, settings, faults } = parseConfig(table, env);
  const kind = read.kind === 'text' ? ('read' as const) : ('defaults' as const);
  // As the service makes it: a collector identifies the box by it.
  const device = { ...config.device, id: config.device.id === '' ? ownDeviceId() : config.device.id };
  return { configFile: { file, kind, trouble: '', faults, settings }, config: { ...config, device } };
}

const noTokens: Tokens = { kind: 'missing', what: '', tokens: [] };

async function readTokens(file: string): Promise<Tokens> {
  const read = await readSafely(file);
  if (read.kind === 'missing') return noTokens;
  if (read.kind === 'denied') return { kind: 'denied', what: '', tokens: [] };
  if (read.kind !== 'text') return { kind: 'odd', what: wordsOf(read), tokens: [] };
  try {
    return { kind: 'read', what: '', tokens: parseTokens(file, read.bytes.toString('utf8')) };
  } catch (error) {
    // Not the message: a JSON error quotes the file.
    const what = /no list|no token/.exec(messageOf(error)) === null ? 'it is no JSON' : 'it is JSON of another kind';
    return { kind: 'damaged', what, tokens: [] };
  }
}

export function isOnNetwork(config: Config | undefined): boolean {
  return isExposed([...(config?.grpc.listen ?? []), ...(config?.http.listen ?? [])]);
}

export function portsOf({ config, roots }: CheckContext): Promise<readonly Port[]> {
  const { sys: sysRoot, dev: devRoot, proc: procRoot } = roots;
  return new Inventory({ sysRoot, devRoot, procRoot, extraPorts: config?.serial.extraPorts ?? [] }).list();
}

/** systemd passes each unit the files of its own directory. */
export const credentialDirs = { line: '/etc/lineside/secrets/line', hub: '/etc/lineside/secrets/hub' } as const;

function ownerOfKey(path: string): 'line' | 'hub' {
  return /^(?:kafka|webhooks|upstream)\./.test(path) ? 'hub' : 'line';
}

/** Where a file is that a key names; a credential's is in the directory that systemd reads it from. */
function fileBehind(path: string, written: string): string {
  return isCredential(written) ? `${credentialDirs[ownerOfKey(path)]}/${written.slice('credential:'.length)}` : written;
}

export interface NamedFile {
  readonly key: string;
  readonly file: string;
  readonly isSecret: boolean;
  /** The process that reads it; a credential is readable by root alone, and systemd reads it. */
  readonly reader: 'line' | 'hub' | 'systemd';
}

export function namedFiles({ configFile, config }: CheckContext): NamedFile[] {
  if (config === undefined) return [];
  return [...configFile.settings].flatMap(([key, { value }]) => {
    if (!key.endsWith('_file') || typeof value !== 'string' || value === '') return [];
    if (key === 'auth.tokens_file' || key === 'device.time_sync_file') return [];
    const file = fileBehind(key, value);
    const reader = file.startsWith('/etc/lineside/secrets/') ? 'systemd' : ownerOfKey(key);
    return [{ key, file, isSecret: /key_file|password|token|secret/.test(key), reader }];
  });
}
