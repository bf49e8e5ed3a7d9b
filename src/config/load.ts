/** Reads the configuration: file, environment, credentials; once, at start. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { parse, TomlError } from 'smol-toml';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import type { Config } from './config.ts';
import { exposureFaults } from './exposure.ts';
import { keys, type Value } from './keys.ts';
import { showListen } from './listen.ts';
import { type Environment, type Fault, parseConfig, type Setting } from './parse.ts';
import { listTokens } from './tokens.ts';

const DEFAULT_FILE = '/etc/lineside/lineside.toml';

export interface Loaded {
  readonly config: Config;
  /** Each key's value as it was written, and where it came from. */
  readonly settings: ReadonlyMap<string, Setting>;
  /** The file that was read; undefined: there is none, and all is from the environment and the defaults. */
  readonly file: string | undefined;
}

/**
 * `named`: --config; else LINESIDE_CONFIG; else the default file, which may be missing. Throws CONFIG_INVALID with every
 * fault. `purpose` 'look' is for commands that only want to know where something is: it leaves out whether the service
 * could start, since the first token is added before it can, and a technician may not read its private key.
 */
export function load(named: string | undefined, env: Environment, purpose: 'serve' | 'look' = 'serve'): Loaded {
  const wanted = named ?? env.LINESIDE_CONFIG;
  const file = wanted ?? DEFAULT_FILE;
  const text = readText(file, wanted !== undefined);
  const { config, settings, faults } = parseConfig(text === undefined ? {} : parseToml(file, text), env);
  const startFaults = purpose === 'look' ? [] : [...fileFaults(config), ...exposureFaults(config, countTokens(config))];
  const all = [...faults, ...startFaults];
  if (all.length > 0) throw invalid(file, all);
  return { config, settings, file: text === undefined ? undefined : file };
}

/** Lines `key = value  (from file|environment|default)`, as `lineside config check` prints them. */
export function describeConfig(loaded: Loaded): string[] {
  return keys.map((key) => {
    const { value, source } = loaded.settings.get(key.path) ?? { value: key.default, source: 'default' };
    // Relative sockets are shown where they are.
    const shown = key.path === 'grpc.listen' ? loaded.config.grpc.listen.map(showListen) : value;
    return `${key.path} = ${showValue(shown)}  (from ${source})`;
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

function fileFaults({ tls }: Config): Fault[] {
  const named = [
    { path: 'tls.cert_file', file: tls.certFile },
    { path: 'tls.key_file', file: tls.keyFile },
    { path: 'tls.client_ca_file', file: tls.clientCaFile },
  ];
  const faults: Fault[] = [];
  for (const { path, file } of named) {
    if (file === '') continue;
    try {
      accessSync(file, constants.R_OK);
    } catch (error) {
      faults.push({ path, message: `cannot be read: ${messageOf(error)}` });
    }
  }
  return faults;
}

function countTokens(config: Config): number {
  try {
    return listTokens(config.auth.tokensFile).filter(({ roles }) =>
      roles.some((r) => r === 'viewer' || r === 'operator'),
    ).length;
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
