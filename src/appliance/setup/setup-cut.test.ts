/**
 * The plug is pulled at every step of a set-up, with torn writes, and with and without what was not flushed; real
 * processes are killed at some of them. The next start must always end in the one good state.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { listTokens } from '../../shared/auth/tokens.ts';
import { realDisk } from '../disk.ts';
import { dyingDisk, identityIn, inMemory, newTrial, PACKAGED, PlugPulled, type Trial, trialIn } from './box.fixture.ts';
import { applySetup } from './setup.ts';
import { wirelessKey } from './setup-plan.ts';

const PSK = 'correct horse battery';
const TOKEN = `lsd_${'Zz9_-'.repeat(9).slice(0, 43)}`;
const KEY = wirelessKey(PSK, 's');
const PASSWORD = 'hunter2hunter2';
const SETUP = `[box]
hostname = "new-name"
[network.wifi]
ssid = "s"
psk = "${PSK}"
country = "DE"
[[token]]
name = "ops"
roles = ["operator", "reader"]
token = "${TOKEN}"
[secrets]
kafka.password = "${PASSWORD}"
`;
const CONFIG = `${PACKAGED}[kafka]\npassword_file = "credential:kafka.password"\n`;

let work = '';
/** A box that has run before, so that most rounds need not make an identity, and its card with new files. */
let settled: Trial;
before(() => {
  work = mkdtempSync(join(inMemory, 'lineside-cut-'));
  settled = newTrial();
  // Under the name that the set-up gives it: its certificate is made again by the rounds from a new card.
  writeFileSync(settled.box.path('/etc/hostname'), 'new-name\n');
  assert.deepEqual(applySetup(settled), []);
  writeFileSync(settled.box.path('/etc/hostname'), 'old-name\n');
  settled.put('setup.toml', SETUP);
  settled.put('lineside.toml', CONFIG);
});
after(() => {
  rmSync(work, { recursive: true, force: true });
  settled[Symbol.dispose]();
});

let rounds = 0;
function copyOf(trial: Trial): Trial {
  rounds += 1;
  const dir = join(work, `${rounds}`);
  cpSync(trial.dir, dir, { recursive: true });
  return trialIn(dir, realDisk);
}

/** Everything that is on the card and on the box, names included. */
function everything(trial: Trial): string {
  const files = readdirSync(trial.dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files
    .map((entry) => `${entry.name}\n${readFileSync(join(entry.parentPath, entry.name), 'latin1')}`)
    .join('\n');
}

/** Neither lost nor changed, wherever it is: staged files hold it as it is, the file of before in base64. */
function holdsSecrets(trial: Trial): boolean {
  const all = everything(trial);
  const original = Buffer.from(SETUP).toString('base64');
  return all.includes(original) || ((all.includes(PSK) || all.includes(KEY)) && all.includes(PASSWORD));
}

function demandGood(trial: Trial, where: string): void {
  assert.deepEqual(applySetup(trial), [], where);
  assert.equal(trial.etc('hostname'), 'new-name\n', where);
  assert.equal(trial.etc('lineside/lineside.toml'), CONFIG, where);
  assert.ok(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf').includes(`psk=${KEY}`), where);
  assert.equal(trial.etc('lineside/secrets/hub/kafka.password'), PASSWORD, where);
  const names = listTokens(trial.box.path('/etc/lineside/tokens.json')).map(({ name }) => name);
  assert.deepEqual(names.sort(), ['claim', 'ops'], where);
  assert.ok(identityIn(trial).names.includes('new-name'), where);
  assert.match(trial.card('claim.txt'), /lsd_/, where);
  for (const secret of [PSK, PASSWORD, TOKEN]) assert.ok(!trial.card('setup.toml').includes(secret), where);
  assert.ok(!everything(trial).includes(TOKEN), `${where}: of a token only the hash is kept`);
  const left = readdirSync(trial.box.path('/etc/lineside/setup')).sort();
  assert.deepEqual(left, ['applied.json', 'claim', 'claim-on-card', 'issue'], where);
  assert.deepEqual(readdirSync(trial.boot).sort(), ['claim.txt', 'lineside.toml', 'setup.toml'], where);
}

/** Dies at each nth step in turn until one set-up needs no more; answers how many there are. */
function cutEverywhere(from: Trial, forgets: boolean, stride: number): number {
  for (let nth = 1; ; nth += stride) {
    using trial = copyOf(from);
    const where = `step ${nth}${forgets ? ', unflushed names forgotten' : ''}`;
    const disk = dyingDisk(nth, forgets);
    try {
      applySetup(trial.with(disk));
    } catch (error) {
      if (!(error instanceof PlugPulled)) throw error;
    }
    assert.ok(holdsSecrets(trial), `${where}: a secret is lost`);
    demandGood(trial, where);
    if (disk.count() < nth) return disk.count();
  }
}

test('a plug pulled at any step leaves what the next start makes whole', () => {
  assert.ok(cutEverywhere(settled, true, 1) > 50);
  assert.ok(cutEverywhere(settled, false, 4) > 50);
});

test('so it is on a new card, where the identity is made too', () => {
  using fresh = newTrial();
  fresh.put('setup.toml', SETUP);
  fresh.put('lineside.toml', CONFIG);
  assert.ok(cutEverywhere(fresh, true, 11) > 80);
});

test('a plug pulled twice, the second time while the first is made good, is no worse', () => {
  for (let first = 22; first < 54; first += 5) {
    using trial = copyOf(settled);
    assert.throws(() => applySetup(trial.with(dyingDisk(first, true))), PlugPulled);
    assert.throws(() => applySetup(trial.with(dyingDisk(1 + (first % 2), true))), PlugPulled);
    assert.ok(holdsSecrets(trial));
    demandGood(trial, `step ${first}`);
  }
});

test('a process killed between two of its renames is no worse', () => {
  for (const nth of [1, 4, 8]) {
    const call = 'rename';
    using trial = copyOf(settled);
    const inject = ['-f', '-qq', '-o', '/dev/null', '-e', `inject=${call}:signal=KILL:when=${nth}`];
    const apply = ['setup', 'apply', '--boot', trial.boot, '--root', trial.box.root];
    const node = [process.execPath, join(import.meta.dirname, '../../main.ts')];
    const ended = spawnSync('strace', [...inject, ...node, ...apply], { timeout: 30_000, encoding: 'utf8' });
    assert.equal(ended.signal, 'SIGKILL', `${call} ${nth}: ${ended.stderr}`);
    assert.ok(holdsSecrets(trial));
    demandGood(trial, `killed at ${call} ${nth}`);
  }
});

test('a card that cannot be written to keeps its files, the box gets the rest, and the next start tries again', () => {
  using trial = copyOf(settled);
  const readOnly = (): never => {
    throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
  };
  const onCard = (path: string): boolean => path.startsWith(trial.boot);
  const disk = {
    ...realDisk,
    write: (path: string, bytes: Uint8Array, mode: number) =>
      onCard(path) ? readOnly() : realDisk.write(path, bytes, mode),
    overwrite: (path: string, bytes: Uint8Array) => (onCard(path) ? readOnly() : realDisk.overwrite(path, bytes)),
    remove: (path: string) => (onCard(path) ? readOnly() : realDisk.remove(path)),
  };
  const locked = trial.with(disk);
  assert.deepEqual(applySetup(locked), []);
  assert.match(locked.logged.join('\n'), /card cannot be written to \(secrets may still be in setup\.toml\): EROFS/);
  assert.ok(!locked.logged.join('\n').includes(PSK));
  assert.equal(trial.etc('hostname'), 'new-name\n');
  locked.logged.length = 0;
  assert.deepEqual(applySetup(locked), []);
  assert.ok(!locked.logged.join('\n').includes('is applied'), 'not applied a second time');
  demandGood(trial, 'written to again');
});

/** A box on which everything is in place, and whose card still has the secrets. */
function beforeTaking(): Trial {
  for (let steps = 30; ; steps++) {
    const trial = copyOf(settled);
    assert.throws(() => applySetup(trial.with(dyingDisk(steps, false))), PlugPulled);
    const isDone = trial.etc('lineside/setup/taking.json') !== '' && !trial.box.has('/etc/lineside/setup/pending');
    if (isDone) return trial;
    trial[Symbol.dispose]();
  }
}

test('an overwriting of the card that is torn at any byte is ended, and no half of a secret is believed', () => {
  using taking = beforeTaking();
  using ended = copyOf(taking);
  assert.deepEqual(applySetup(ended), []);
  const [old, taken] = [SETUP, ended.card('setup.toml')];
  for (let at = 1; at < old.length; at += 11) {
    for (const mixed of [taken.slice(0, at) + old.slice(at), old.slice(0, at) + taken.slice(at)]) {
      using trial = copyOf(taking);
      trial.put('setup.toml', mixed);
      demandGood(trial, `torn at ${at}`);
    }
  }
});

test('secrets that were replaced on the card while the first were being taken count', () => {
  using trial = beforeTaking();
  trial.put('setup.toml', SETUP.replace(PSK, 'another one instead'));
  assert.deepEqual(applySetup(trial), []);
  assert.ok(trial.etc('wpa_supplicant/wpa_supplicant-wlan0.conf').includes(wirelessKey('another one instead', 's')));
  assert.ok(!trial.card('setup.toml').includes('another one'));
});
