/** Sites for the tests of backup and restore: configuration and data in directories of their own, as on a box. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { makeBackup } from '../../src/appliance/backup/backup.ts';
import { dataPaths } from '../../src/appliance/backup/data-paths.ts';
import { restoreBackup, type Services } from '../../src/appliance/backup/restore.ts';
import type { KnownDatabase } from '../../src/appliance/backup/restore-prepare.ts';
import type { OnStep } from '../../src/appliance/backup/restore-swap.ts';
import { hubMigrations } from '../../src/hub/migrations.ts';
import { renewStoreId } from '../../src/hub/outbox/transaction.ts';
import { migrations } from '../../src/line/log/store/schema.ts';
import { renewLogIdentity } from '../../src/line/log/store/tables.ts';
import { openDatabase } from '../../src/shared/storage/open.ts';

export interface Site {
  readonly dir: string;
  readonly etc: string;
  readonly configFile: string;
  readonly data: string;
  readonly file: string;
}

export const known: Readonly<Record<'log' | 'refdata', KnownDatabase>> = {
  log: { migrations, renew: renewLogIdentity },
  refdata: { migrations: hubMigrations, renew: renewStoreId },
};

export function siteIn(dir: string): Site {
  const at = (name: string): string => join(dir, name);
  return { dir, etc: at('etc'), configFile: at('etc/lineside.toml'), data: at('data'), file: at('box.backup') };
}

/** A box that was never started, with a little of everything; `text` distinguishes its states. */
export function fill({ etc, configFile, data }: Site, text: string): void {
  mkdirSync(join(etc, 'secrets/hub'), { recursive: true, mode: 0o700 });
  mkdirSync(data, { recursive: true, mode: 0o750 });
  writeFileSync(configFile, `# ${text}\n[device]\nid = "box-1"\n[data]\ndir = ${JSON.stringify(data)}\n`);
  writeFileSync(join(etc, 'tokens.json'), `{"tokens":[],"text":"${text}"}`, { mode: 0o640 });
  writeFileSync(join(etc, 'secrets/hub/kafka.password'), `${text}\n`, { mode: 0o600 });
  writeFileSync(join(data, 'line-state.json'), `{"text":"${text}"}`);
  writeFileSync(join(data, 'webhooks.key'), Buffer.alloc(32, text), { mode: 0o600 });
  const options = { pageSize: 512, cacheKib: 64, walLimitBytes: 1 << 20 };
  const log = openDatabase({ ...options, path: join(data, 'log.db'), migrations });
  log.prepare("INSERT OR REPLACE INTO meta VALUES ('log_id', ?)").run(`log of ${text}`);
  log.prepare("INSERT OR REPLACE INTO meta VALUES ('text', ?)").run(text);
  const refdata = openDatabase({ ...options, path: join(data, 'refdata.db'), migrations: hubMigrations });
  refdata
    .prepare('INSERT OR REPLACE INTO progress (one, store_id, last_tx_time, last_outbox_id) VALUES (1, ?, ?, 0)')
    .run('id', text);
  log.close();
  refdata.close();
}

/** Which state each part of a box is in: `[text, ...]`, all equal where the box is whole. */
export function statesOf({ etc, configFile, data }: Site): string[] {
  const read = (file: string): string => readFileSync(file, 'utf8');
  return [
    /^# (.*)$/m.exec(read(configFile))?.[1] ?? '',
    /"text":"(.*?)"/.exec(read(join(etc, 'tokens.json')))?.[1] ?? '',
    read(join(etc, 'secrets/hub/kafka.password')).trim(),
    /"text":"(.*?)"/.exec(read(join(data, 'line-state.json')))?.[1] ?? '',
    read(join(data, 'webhooks.key')).slice(0, 3),
    String(inDatabase(join(data, 'log.db'), "SELECT value FROM meta WHERE key = 'text'")),
    String(inDatabase(join(data, 'refdata.db'), 'SELECT last_tx_time FROM progress')),
  ];
}

export function inDatabase(file: string, sql: string): unknown {
  const database = new Database(file);
  try {
    assert.equal(database.pragma('quick_check', { simple: true }), 'ok');
    return database.prepare(sql).pluck().get();
  } finally {
    database.close();
  }
}

/** As `lineside backup` does it. */
export async function backUp(where: Site, withLog = true, withKeys = true): Promise<void> {
  const paths = dataPaths(where.configFile, {}, () => undefined);
  await makeBackup({
    out: where.file,
    paths,
    withLog,
    withKeys,
    version: '1.0.0',
    nowMs: 1_800_000_000_000,
    onProgress: () => undefined,
  });
}

export const noServices: Services = { stop: () => [], start: () => undefined };

/** As `lineside restore` does it. */
export function restore({ file, configFile }: Site, services = noServices, onStep: OnStep = () => undefined): void {
  restoreBackup({ file, configFile, env: {}, databases: known, services, onStep });
}

/** Every file with its mode: two of these are equal when nothing was changed. */
export function everything({ etc, data }: Site): Record<string, string> {
  const found: Record<string, string> = {};
  for (const dir of [etc, data]) {
    for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
      const path = join(dir, name);
      const stat = statSync(path);
      found[path] = `${(stat.mode & 0o7777).toString(8)} ${stat.isFile() ? readFileSync(path, 'base64') : ''}`;
    }
  }
  return found;
}
