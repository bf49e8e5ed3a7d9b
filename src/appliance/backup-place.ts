/** Where on this machine lie the things that a backup holds. */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { LinesideError } from '../base/errors.ts';
import { type Loaded, load } from '../config/load.ts';

export interface BackupPlace {
  /** Configuration, tokens, identity, secrets: all of the directory. */
  readonly etcDir: string;
  /** log.db, line-state.json. */
  readonly lineDir: string;
  /** refdata.db. */
  readonly hubDir: string;
  readonly keyFile: string;
  readonly deviceId: string;
}

/** systemd gives the hub a directory of its own beside the line's; without systemd they share data.dir. */
const hubSuffix = '-hub';

export function placeOf(
  configFile: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): BackupPlace {
  return placeIn(load(configFile, env, 'look'), dirname(configFileOf(configFile, env)));
}

/** Which file load() reads, whether it is there or not. */
export function configFileOf(named: string | undefined, env: Readonly<Record<string, string | undefined>>): string {
  return resolve(named ?? env['LINESIDE_CONFIG'] ?? '/etc/lineside/lineside.toml');
}

/** `etcDir`: the directory that the configuration file is, or will be, in. */
export function placeIn({ config, settings }: Loaded, etcDir: string): BackupPlace {
  const lineDir = config.data.dir;
  const ownDir = `${lineDir}${hubSuffix}`;
  const hubDir = settings.get('data.dir')?.source === 'default' && existsSync(ownDir) ? ownDir : lineDir;
  const { keyFile } = config.webhooks;
  for (const dir of [lineDir, hubDir]) {
    if (!`${resolve(dir)}/`.startsWith(`${resolve(etcDir)}/`)) continue;
    throw new LinesideError(
      'CONFIG_INVALID',
      `the data (${dir}) lies in the directory of the configuration (${etcDir})`,
      {
        hint: 'Backups keep all of the one and some of the other: let data.dir name another place.',
      },
    );
  }
  return {
    etcDir,
    lineDir,
    hubDir,
    keyFile: settings.get('webhooks.key_file')?.source === 'default' ? join(hubDir, 'webhooks.key') : keyFile,
    deviceId: config.device.id,
  };
}
