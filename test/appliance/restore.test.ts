/** Restore: nothing is replaced that was not verified, and a box has all of the old or all of the new, wherever it is cut short. */
import assert from 'node:assert/strict';
import fs, {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { keyBytes, listName } from '../../src/appliance/backup/backup-archive.ts';
import { restoreBackup } from '../../src/appliance/backup/restore.ts';
import { finishRestore, writeJournal } from '../../src/appliance/backup/restore-swap.ts';
import { killedAt } from '../../src/appliance/killed.fixture.ts';
import { keyBytes as usedKeyBytes } from '../../src/hub/webhooks/subscriptions/secrets.ts';
import { holdDataDirectory } from '../../src/shared/base/data-directory.ts';
import { type ErrorCode, LinesideError } from '../../src/shared/base/errors.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import {
  backUp,
  everything,
  fill,
  inDatabase,
  known,
  noServices,
  restore,
  type Site,
  siteIn,
  statesOf,
} from './backup-site.ts';
import { added, configured, crafted, directory, forged, keyOf, newer, put, realTar, rewrite } from './forged-backup.ts';

/** A box with a backup of the state "one", and now in the state "two". */
async function twoStates(t: TestContext): Promise<Site> {
  const dir = temporaryDirectory(t);
  const where = siteIn(dir);
  fill(where, 'one');
  await backUp(where);
  rmSync(where.etc, { recursive: true });
  rmSync(where.data, { recursive: true });
  fill(where, 'two');
  writeFileSync(join(where.etc, 'gained'), 'since');
  return where;
}

const refusedAs = (code: ErrorCode, message: RegExp) => ({ name: LinesideError.name, code, message });

const all = (text: string): string[] => Array.from({ length: 7 }, () => text);

test('the old state is back with its modes, what was gained since is gone, and the log and the store are others', async (t) => {
  const where = await twoStates(t);
  const calls: string[] = [];
  restore(where, {
    stop: () => {
      calls.push(`stopped with ${statesOf(where)[0]}`);
      return ['lineside.service'];
    },
    start: (units) => calls.push(`${units.join()} started with ${statesOf(where)[0]}`),
  });
  assert.deepEqual(statesOf(where), all('one'));
  assert.deepEqual(calls, ['stopped with two', 'lineside.service started with one']);
  assert.deepEqual(readdirSync(where.etc).sort(), ['lineside.toml', 'secrets', 'tokens.json']);
  const mode = (path: string): number => statSync(path).mode & 0o777;
  assert.deepEqual(
    [join(where.etc, 'tokens.json'), join(where.etc, 'secrets'), join(where.data, 'webhooks.key')].map(mode),
    [0o640, 0o700, 0o600],
  );
  const logId = String(inDatabase(join(where.data, 'log.db'), "SELECT value FROM meta WHERE key = 'log_id'"));
  assert.match(logId, /^[0-9a-f-]{36}$/);
  assert.match(String(inDatabase(join(where.data, 'refdata.db'), 'SELECT store_id FROM progress')), /^[0-9a-f-]{36}$/);
});

test('a write-ahead log of before is not checkpointed into what comes', async (t) => {
  const where = await twoStates(t);
  const log = new Database(join(where.data, 'log.db'));
  log.exec("UPDATE meta SET value = 'three' WHERE key = 'text'");
  const wal = readFileSync(join(where.data, 'log.db-wal'));
  const shm = readFileSync(join(where.data, 'log.db-shm'));
  log.close();
  writeFileSync(join(where.data, 'log.db-wal'), wal);
  writeFileSync(join(where.data, 'log.db-shm'), shm);
  restore(where);
  assert.deepEqual(statesOf(where), all('one'));
});

test('a backup without the log leaves the log that is there', async (t) => {
  const where = await twoStates(t);
  await backUp(where, false);
  fill(where, 'new');
  restore(where);
  assert.deepEqual(statesOf(where), ['two', 'two', 'two', 'two', 'two', 'new', 'two']);
});

test('a box without a name of its own keeps the one that it had, on another machine too', async (t) => {
  const where = await twoStates(t);
  const text = readFileSync(where.configFile, 'utf8');
  writeFileSync(where.configFile, text.replace('id = "box-1"', '# id = ""'));
  await backUp(where);
  const list = readFileSync(where.file, 'latin1');
  const own = /"deviceId": "(.*?)"/.exec(list)?.[1] ?? '';
  // As if it had been made on another machine.
  const other = own.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  rewrite(where.file, (entries) => {
    const at = entries.find(({ entry }) => entry.path === listName);
    if (at !== undefined) at.content = Buffer.from(at.content.toString().replace(own, other));
  });
  restore(where);
  assert.match(readFileSync(where.configFile, 'utf8'), new RegExp(`^\\[device\\]\nid = "${other}"$`, 'm'));
});

for (const [name, code, about, spoil] of [
  ['one byte less', 'MALFORMED', /cut short/, ({ file }) => truncateSync(file, statSync(file).size - 1)],
  ['half of it', 'MALFORMED', /cut short/, ({ file }) => truncateSync(file, statSync(file).size / 2)],
  ['without its list', 'MALFORMED', /no list/, ({ file }) => rewrite(file, (entries) => entries.splice(-2))],
  ['empty', 'MALFORMED', /cut short/, ({ file }) => truncateSync(file, 0)],
  ['something behind its end', 'MALFORMED', /follow the end/, ({ file }) => appendFileSync(file, Buffer.alloc(512))],
  ['a file more', 'MALFORMED', /not those of its list/, ({ file }) => added(file, 'etc/more', 'x')],
  ['a file twice', 'MALFORMED', /etc\/tokens\.json is in it twice/, ({ file }) => added(file, 'etc/tokens.json', 'x')],
  ['a name of the restore itself', 'MALFORMED', /does not belong/, ({ file }) => added(file, 'etc/.restore', '{}')],
  ['a file of another place', 'MALFORMED', /does not belong/, ({ file }) => added(file, 'home/root/x', 'x')],
  ['a device', 'MALFORMED', /no plain file/, ({ file }) => forged(file, 156, '3/etc/passwd')],
  [
    'a key file anywhere, because the archived configuration says so',
    'CONFIG_INVALID',
    /hub\/webhooks\.key: the backup's configuration puts it at .*elsewhere\/shadow/,
    (where) => configured(where, `[webhooks]\nkey_file = "${where.dir}/elsewhere/shadow"\n`),
  ],
  [
    'a key file over a database',
    'CONFIG_INVALID',
    /hub\/webhooks\.key: the backup's configuration puts it at .*refdata\.db-wal/,
    (where) => configured(where, `[webhooks]\nkey_file = "${where.data}/refdata.db-wal"\n`),
  ],
  [
    'data anywhere, because the archived configuration says so',
    'CONFIG_INVALID',
    /line\/line-state\.json: the backup's configuration puts it at .*elsewhere/,
    (where) => configured(where, '', `${where.dir}/elsewhere`),
  ],
  [
    'a key that is handed over by systemd',
    'CONFIG_INVALID',
    /hub\/webhooks\.key: the backup's configuration puts it at .*credential:key/,
    (where) => configured(where, '[webhooks]\nkey_file = "credential:key"\n'),
  ],
  ['a key that is too short', 'MALFORMED', /hub\/webhooks\.key has 31 bytes/, ({ file }) => keyOf(file, 31)],
  ['a key that is too long', 'MALFORMED', /hub\/webhooks\.key has 33 bytes/, ({ file }) => keyOf(file, 33)],
  [
    'a state of the line that is huge',
    'MALFORMED',
    /line\/line-state\.json has 2097152 bytes/,
    ({ file }) => crafted(file, (entries) => put(entries, 'line/line-state.json', Buffer.alloc(2 ** 21))),
  ],
  [
    'a huge file',
    'MALFORMED',
    /etc\/huge has 8388608 bytes/,
    ({ file }) => crafted(file, (entries) => put(entries, 'etc/huge', Buffer.alloc(2 ** 23))),
  ],
  [
    'a name that is a file and a directory',
    'MALFORMED',
    /etc\/tokens\.json is a file, and etc\/tokens\.json\/x lies below it/,
    ({ file }) => crafted(file, (entries) => put(entries, 'etc/tokens.json/x', 'x')),
  ],
  [
    'a directory that is not in it',
    'MALFORMED',
    /etc\/none is missing, and etc\/none\/x lies below it/,
    ({ file }) => crafted(file, (entries) => put(entries, 'etc/none/x', 'x')),
  ],
  ['a size of 8 GB', 'MALFORMED', /etc\/evil has 8589934591 bytes/, ({ file }) => forged(file, 124, '77777777777')],
  [
    'a size that is no number',
    'MALFORMED',
    /a number of a header/,
    ({ file }) => forged(file, 124, '-1\0\0\0\0\0\0\0\0\0'),
  ],
  [
    'what the set-up has to do yet',
    'MALFORMED',
    /etc\/setup does not belong/,
    ({ file }) => crafted(file, (entries) => entries.unshift(directory('etc/setup'))),
  ],
  [
    'a name of the box that writes into its configuration',
    'MALFORMED',
    /device id/,
    ({ file }) => crafted(file, () => undefined, { deviceId: 'x"\n[webhooks]\nkey_file = "/etc/shadow' }),
  ],
  ['a list that is none', 'MALFORMED', /its list/, ({ file }) => crafted(file, () => undefined, { createdAt: 7 })],
  [
    'a configuration with a fault',
    'CONFIG_INVALID',
    /a fault/,
    ({ file }) => crafted(file, (entries) => put(entries, 'etc/lineside.toml', '[device]\nidd = 1\n')),
  ],
  ['a database of a newer lineside', 'INTERNAL', /schema version 900/, ({ file }) => newer(file)],
  [
    'a damaged database',
    'STORAGE_DAMAGED',
    /refdata\.db/,
    ({ file }) => crafted(file, (entries) => put(entries, 'hub/refdata.db', Buffer.alloc(8_192, 'no database'))),
  ],
] as const satisfies readonly (readonly [string, ErrorCode, RegExp, (where: Site) => unknown])[]) {
  test(`refused whole: ${name}`, async (t) => {
    const where = await twoStates(t);
    spoil(where);
    const before = everything(where);
    let isStopped = false;
    const services = { ...noServices, stop: () => ((isStopped = true), []) };
    assert.throws(() => restore(where, services), refusedAs(code, about));
    assert.deepEqual(everything(where), before);
    assert.ok(!isStopped, 'the service was stopped for nothing');
  });
}

test("modes and owners are the product's, whatever the archive says", async (t) => {
  const where = await twoStates(t);
  crafted(where.file, (entries) => {
    for (const one of entries) one.entry = { ...one.entry, mode: 0o7777, owner: 'daemon', group: 'daemon' };
    put(entries, 'etc/tool', '#!/bin/sh\n', 0o4755);
  });
  restore(where);
  const seen = (path: string): string => {
    const { mode, uid, gid } = statSync(path);
    return `${(mode & 0o7777).toString(8)} ${uid === process.getuid?.()} ${gid === process.getgid?.()}`;
  };
  const etc = (path: string): string => seen(join(where.etc, path));
  const data = (path: string): string => seen(join(where.data, path));
  assert.deepEqual(
    [etc('tool'), etc('secrets'), etc('secrets/hub/kafka.password'), etc('lineside.toml')],
    ['644 true true', '700 true true', '600 true true', '644 true true'],
  );
  assert.match(etc('tokens.json'), /^640 true /);
  for (const path of ['log.db', 'refdata.db', 'line-state.json', 'webhooks.key'])
    assert.equal(data(path), '600 true true', path);
});

test("the length of a key is the webhooks' own", () => {
  assert.equal(keyBytes, usedKeyBytes);
});

test('an archive of real tar is restored where it holds what a backup holds', async (t) => {
  const where = await twoStates(t);
  realTar(where, '');
  restore(where);
  assert.deepEqual(statesOf(where), all('one'));
});

for (const [name, about, make, ...options] of [
  ['a symbolic link', /"etc\/evil" is no plain file/, 'ln -s /etc/passwd etc/evil'],
  ['a hard link', /"etc\/evil" is no plain file/, 'ln etc/tokens.json etc/evil'],
  ['a pipe', /"etc\/evil" is no plain file/, 'mkfifo etc/evil'],
  ['a path out of the directory', /evil" cannot be kept/, '', '-P', '--transform=s,^etc/tokens.json$,etc/../../evil,'],
  ['an absolute path', /evil" cannot be kept/, '', '-P', '--transform=s,^etc/tokens.json$,/tmp/evil,'],
  ['extended headers', /PaxHeaders/, '', '--format=posix'],
  ['headers of GNU tar', /"etc\/lineside\.toml" is no plain file/, '', '--format=gnu'],
] as const) {
  test(`refused whole, made by real tar: ${name}`, async (t) => {
    const where = await twoStates(t);
    realTar(where, make, ...options);
    const before = everything(where);
    assert.throws(() => restore(where), refusedAs('MALFORMED', about));
    assert.deepEqual(everything(where), before);
  });
}

test('any single bit that is another one is found out', async (t) => {
  const where = await twoStates(t);
  const whole = readFileSync(where.file);
  const before = everything(where);
  // Every region of the file, by a step that meets headers, contents and padding alike.
  for (let at = 0; at < whole.length; at += 997) {
    const broken = Buffer.from(whole);
    broken[at] = (broken[at] ?? 0) ^ (1 << (at % 8));
    writeFileSync(where.file, broken);
    assert.throws(() => restore(where), LinesideError, `bit of byte ${at}`);
  }
  assert.deepEqual(everything(where), before);
});

test('while a process has a database open, nothing is replaced and the service is started again', async (t) => {
  const where = await twoStates(t);
  const held = new Database(join(where.data, 'log.db'));
  t.after(() => held.close());
  held.prepare('SELECT count(*) FROM meta').get();
  const started: string[] = [];
  const services = { stop: () => ['lineside.service'], start: (units: readonly string[]) => started.push(...units) };
  assert.throws(() => restore(where, services), refusedAs('CONFLICT', /log\.db is in use/));
  assert.deepEqual(started, ['lineside.service']);
  assert.deepEqual(statesOf(where), all('two'));
  assert.ok(!existsSync(join(where.etc, '.restore')));
});

test('while a process of the service is at work in its directory, nothing is replaced', async (t) => {
  const where = await twoStates(t);
  for (const [role, database] of [
    ['line', 'log.db'],
    ['hub', 'refdata.db'],
  ] as const) {
    const release = await holdDataDirectory(where.data, role);
    assert.throws(() => restore(where), refusedAs('CONFLICT', new RegExp(`${database} is in use`)));
    release();
  }
  assert.deepEqual(statesOf(where), all('two'));
});

test('killed at any step: the next start finds all of the old or all of the new', async (t) => {
  const seen = new Set<string>();
  const where = await twoStates(t);
  const again = keep(where);
  for (let at = 1; ; at++) {
    again();
    const { signal, last } = cutAt(where, at);
    if (signal === null) break;
    seen.add(last);
    // What lineside-restore.service does before the service is started.
    const wasFinished = finishRestore(where.etc);
    assert.deepEqual(statesOf(where), all(wasFinished || last === 'clear' ? 'one' : 'two'), `killed at ${last}`);
    assert.equal(finishRestore(where.etc), false);
    restore(where);
    assert.deepEqual(statesOf(where), all('one'));
    assert.ok(!existsSync(join(where.etc, '.restore')) && !existsSync(join(where.data, '.restore')));
  }
  const begun = ['etc', 'data', 'prepared', 'journal', 'away log.db', 'new log.db', 'new secrets'];
  for (const step of [...begun, 'done', 'forget', 'clear']) assert.ok(seen.has(step), `never killed at ${step}`);
});

test('a card that takes a write only in part still gets a journal that can be read', async (t) => {
  const where = await twoStates(t);
  cutAt(where, 4);
  const moves = [{ dir: where.etc, name: 'gained', hasNew: false }];
  const whole = fs.writeSync;
  t.mock.method(fs, 'writeSync', (fd: number, bytes: Buffer, at = 0, length?: number, place?: number | null) =>
    typeof bytes === 'string'
      ? whole(fd, Buffer.from(bytes).subarray(0, 7))
      : whole(fd, bytes, at, Math.min(7, length ?? bytes.length), place),
  );
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  writeJournal(where.etc, moves, () => undefined);
  assert.ok(finishRestore(where.etc));
  assert.ok(!existsSync(join(where.etc, 'gained')));
});

test('if the journal cannot be written nothing has begun: the service runs again on the old state', async (t) => {
  const where = await twoStates(t);
  const before = everything(where);
  const started: (readonly string[])[] = [];
  const services = { stop: () => ['lineside.service'], start: (units: readonly string[]) => started.push(units) };
  const full = (step: string): void => {
    if (step === 'journal') throw new Error('no space left');
  };
  assert.throws(() => restore(where, services, full), /no space left/);
  assert.deepEqual([started, everything(where)], [[['lineside.service']], before]);
});

test('killed again while it is being finished, it is finished all the same', async (t) => {
  const where = await twoStates(t);
  // The journal stands, and a name or two were moved.
  cutAt(where, 6);
  const again = keep(where);
  for (let at = 1; at <= 6; at++) {
    again();
    let steps = 0;
    const stop = (): void => {
      if (++steps === at) throw new Error('pulled');
    };
    assert.throws(() => finishRestore(where.etc, stop), /pulled/);
    assert.ok(finishRestore(where.etc));
    assert.deepEqual(statesOf(where), all('one'));
  }
});

/** Keeps a box as it is now; the function puts it there again. */
function keep({ dir }: Site): () => void {
  const kept = `${dir}-kept`;
  cpSync(dir, kept, { recursive: true, preserveTimestamps: true });
  after(() => rmSync(kept, { recursive: true, force: true }));
  return () => {
    rmSync(dir, { recursive: true });
    cpSync(kept, dir, { recursive: true, preserveTimestamps: true });
  };
}

test('a backup without keys has none, whatever they are called, and a restore leaves those of the box', async (t) => {
  const dir = temporaryDirectory(t);
  const where = siteIn(dir);
  fill(where, 'one');
  appendFileSync(where.configFile, `[auth]\ntokens_file = ${JSON.stringify(join(where.etc, 'tokens.json'))}\n`);
  const certificate = '-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n';
  writeFileSync(join(where.etc, 'kafka-ca.pem'), certificate);
  const key = '-----BEGIN PRIVATE KEY-----\nHIDDEN-KEY\n-----END PRIVATE KEY-----\n';
  const secrets = { 'both.pem': certificate + key, 'password.txt': 'HIDDEN-WORD', 'identity.json': '{}' };
  for (const [name, content] of Object.entries(secrets)) writeFileSync(join(where.etc, name), content);
  mkdirSync(join(where.etc, 'ca'));
  writeFileSync(join(where.etc, 'ca/ca.key'), key);
  await backUp(where, true, false);
  const content = readFileSync(where.file, 'latin1');
  assert.doesNotMatch(content, /HIDDEN|kafka\.password|webhooks\.key|ca\.key/);
  assert.match(content, /etc\/kafka-ca\.pem/);
  fill(where, 'two');
  rmSync(join(where.etc, 'kafka-ca.pem'));
  restore(where);
  // Configuration, tokens, secrets, the state of the line, the webhooks' key, both databases.
  assert.deepEqual(statesOf(where), ['one', 'one', 'two', 'one', 'two', 'one', 'one']);
  const names = ['both.pem', 'ca', 'identity.json', 'kafka-ca.pem', 'lineside.toml', 'password.txt', 'secrets'];
  assert.deepEqual(readdirSync(where.etc).sort(), [...names, 'tokens.json']);
});

test('a restore that keeps secrets takes neither tokens nor keys from a backup that has them, by any name', async (t) => {
  const where = await twoStates(t);
  const tokens = `[auth]\ntokens_file = ${JSON.stringify(join(where.etc, 'tokens.json'))}\n`;
  appendFileSync(where.configFile, tokens);
  const certificate = '-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n';
  const options = { file: where.file, configFile: where.configFile, env: {}, databases: known, services: noServices };
  const keeping = () => restoreBackup({ ...options, keepsSecrets: true });
  // Another configuration would make the box trust other tokens.
  const before = everything(where);
  for (const [more, why] of [
    ['', /auth\.tokens_file: names a place on the box/],
    [`${tokens}[webhooks]\nkey_file = "/etc/shadow"\n`, /webhooks\.key_file: names a place on the box/],
    [`${tokens}[log]\ncommit_ms = "often"\n`, /log\.commit_ms: /],
    [`${tokens}[log]\nno_such = 1\n`, /log\.no_such: no such key/],
  ] as const) {
    configured(where, more);
    assert.throws(keeping, refusedAs('CONFIG_INVALID', why));
    assert.deepEqual(everything(where), before);
  }

  configured(where, tokens);
  crafted(where.file, (entries) => {
    // A file of certificates alone is a public one.
    put(entries, 'etc/tokens.json', certificate);
    put(entries, 'etc/kafka-ca.pem', certificate);
    put(entries, 'etc/identity.json', '{}');
  });
  keeping();
  assert.deepEqual(statesOf(where), ['one', 'two', 'two', 'one', 'two', 'one', 'one']);
  assert.deepEqual(readdirSync(where.etc).sort(), [
    'gained',
    'kafka-ca.pem',
    'lineside.toml',
    'secrets',
    'tokens.json',
  ]);
});

/** Restores until the nth step; the last one that was begun. */
function cutAt({ dir }: Site, nth: number): { signal: string | null; last: string } {
  const { signal, steps } = killedAt(
    nth,
    `import { noServices, restore, siteIn } from './test/appliance/backup-site.ts';
    restore(siteIn(${JSON.stringify(dir)}), noServices, onStep);`,
  );
  return { signal, last: steps.at(-1) ?? '' };
}

test('a file that cannot be kept in a backup is named, and there is no backup', async (t) => {
  const where = await twoStates(t);
  rmSync(where.file);
  mkdirSync(join(where.etc, 'with blank'));
  await assert.rejects(backUp(where), refusedAs('MALFORMED', /with blank/));
  rmSync(join(where.etc, 'with blank'), { recursive: true });
  writeFileSync(join(where.data, 'refdata.db'), Buffer.alloc(8_192, 'no database'));
  await assert.rejects(backUp(where));
  assert.deepEqual(readdirSync(where.dir).sort(), ['data', 'etc']);
});
