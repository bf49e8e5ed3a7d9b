/** Where on this machine lie the things that a backup holds. */
import { basename, dirname, join, resolve } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { hubDirOf, type Loaded, loadText, loadTolerant } from '../../shared/config/load.ts';
import type { Environment } from '../../shared/config/parse.ts';
import { etc } from '../box.ts';

export interface DataPaths {
  /** Configuration, tokens, identity, secrets: all of the directory. */
  readonly etcDir: string;
  /** log.db, line-state.json. */
  readonly lineDir: string;
  /** refdata.db. */
  readonly hubDir: string;
  readonly keyFile: string;
  /** Names in etcDir of what holds no secret: the configuration, and the tokens, of which only hashes are kept. */
  readonly publicFiles: readonly string[];
  readonly tokensFile: string;
  readonly deviceId: string;
}

const neededKeys = ['data.dir', 'webhooks.key_file', 'device.id'];

/** `warn` receives faults that a backup does not depend on. */
export function dataPaths(configFile: string | undefined, env: Environment, warn: (warning: string) => void) {
  const looked = loadTolerant(configFile, env, neededKeys);
  if (looked.warning !== '') warn(looked.warning);
  return dataPathsIn(looked, configFileOf(configFile, env));
}

/**
 * Where a restore may write: the places of this box, by its own configuration and without one. Never by the backup's: the person who
 * made the file would choose which files root replaces.
 */
export function allowedPaths(configFile: string, env: Environment): DataPaths[] {
  const usual = dataPathsIn(loadText({ file: configFile, text: undefined }, env, 'locate'), configFile);
  try {
    return [dataPaths(configFile, env, () => undefined), usual];
  } catch {
    // No configuration, or a fault in a key that says where the data is: the usual place remains.
    return [usual];
  }
}

/** Which file load() reads, whether it is there or not. */
export function configFileOf(named: string | undefined, env: Environment): string {
  return resolve(named ?? env['LINESIDE_CONFIG'] ?? etc.config);
}

/** `configFile`: where the configuration is, or will be. */
export function dataPathsIn({ config, settings }: Pick<Loaded, 'config' | 'settings'>, configFile: string): DataPaths {
  const etcDir = dirname(configFile);
  const lineDir = config.data.dir;
  const hubDir = hubDirOf({ config, settings });
  const { keyFile } = config.webhooks;
  for (const dir of [lineDir, hubDir]) {
    if (!`${resolve(dir)}/`.startsWith(`${resolve(etcDir)}/`)) continue;
    const message = `the data (${dir}) lies in the directory of the configuration (${etcDir})`;
    throw new LinesideError('CONFIG_INVALID', message, {
      hint: 'Backups keep all of the one and some of the other: let data.dir name another place.',
    });
  }
  return {
    etcDir,
    lineDir,
    hubDir,
    keyFile: settings.get('webhooks.key_file')?.source === 'default' ? join(hubDir, 'webhooks.key') : keyFile,
    publicFiles: [configFile, config.auth.tokensFile]
      .filter((file) => dirname(resolve(file)) === resolve(etcDir))
      .map((file) => basename(file)),
    tokensFile: resolve(config.auth.tokensFile),
    deviceId: config.device.id,
  };
}
