import assert from 'node:assert/strict';
import fs from 'node:fs';
import { basename, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { SecretBox } from './secrets.ts';

const names = [
  'openSync',
  'fstatSync',
  'readFileSync',
  'writeFileSync',
  'fsyncSync',
  'closeSync',
  'renameSync',
  'rmSync',
] as const;

/**
 * The calls from now on: "openSync webhooks.key.new", ... `judge` is asked before each, with its place from 1, and may throw.
 */
function watchFiles(t: TestContext, judge: (name: string, nth: number) => void = () => {}): string[] {
  t.mock.restoreAll();
  const calls: string[] = [];
  const paths = new Map<number, string>();
  for (const name of names) {
    const real = fs[name] as (...args: unknown[]) => unknown;
    t.mock.method(fs, name, (...args: unknown[]) => {
      const [first] = args;
      const path = typeof first === 'number' ? (paths.get(first) ?? '') : String(first);
      calls.push(`${name} ${basename(path)}`);
      judge(name, calls.length);
      const result = real(...args);
      if (name === 'openSync') paths.set(result as number, path);
      return result;
    });
  }
  return calls;
}

function fault(code: string): Error {
  return Object.assign(new Error(code), { code });
}

const secret = 'a secret of 16 bytes and more';

describe('a sealed secret', () => {
  it('is opened by the same key for the same subscription, and looks different each time', (t) => {
    const keyFile = join(temporaryDirectory(t), 'webhooks.key');
    const box = new SecretBox(keyFile);
    for (const text of [secret, 'ß'.repeat(512), '\u{1f511}\0\n']) {
      const blob = box.seal(3, text);
      assert.deepEqual(new SecretBox(keyFile).open(3, blob), { secret: text });
    }
    const [one, two] = [box.seal(3, secret), box.seal(3, secret)];
    assert.notDeepEqual(one, two);
    assert.equal(one[0], 1);
    assert.equal(one.length, 1 + 12 + 16 + Buffer.byteLength(secret));
    assert.equal(one.includes(secret.slice(0, 4)), false);
  });

  it('is opened for no other subscription, by no other key, and not with any bit changed', (t) => {
    const dir = temporaryDirectory(t);
    const keyFile = join(dir, 'webhooks.key');
    const box = new SecretBox(keyFile);
    const blob = box.seal(3, secret);
    const sealedOtherwise = { unreadable: `it was not sealed by the key in ${keyFile}` };
    assert.deepEqual(box.open(4, blob), sealedOtherwise);
    for (let at = 0; at < blob.length; at++) {
      const changed = Buffer.from(blob);
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      assert.ok('unreadable' in box.open(3, changed), `byte ${at}`);
    }
    const noSecret = { unreadable: 'what is stored of it is no sealed secret of this version' };
    for (const length of [0, 1, 28, 29]) assert.deepEqual(box.open(3, blob.subarray(0, length)), noSecret);
    assert.deepEqual(box.open(3, blob.subarray(0, 30)), sealedOtherwise);
    const other = new SecretBox(join(dir, 'other.key'));
    other.seal(3, secret);
    assert.ok('unreadable' in other.open(3, blob));
  });
});

describe('the key', () => {
  it('is made with the first secret, for its user alone, and on the medium before that secret is given out', (t) => {
    const dir = temporaryDirectory(t);
    const keyFile = join(dir, 'webhooks.key');
    const umask = process.umask(0);
    t.after(() => process.umask(umask));
    let made = 0;
    const box = new SecretBox(keyFile, () => made++);
    assert.deepEqual(fs.readdirSync(dir), [], 'not before it is needed');
    assert.deepEqual(box.open(1, Buffer.alloc(40, 1)), { unreadable: `there is no key file ${keyFile}` });
    const calls = watchFiles(t);
    box.seal(1, secret);
    const { mode, size } = fs.statSync(keyFile);
    assert.deepEqual([mode & 0o777, size, made], [0o600, 32, 1]);
    assert.deepEqual(fs.readdirSync(dir), ['webhooks.key']);
    const name = basename(dir);
    assert.deepEqual(calls, [
      'openSync webhooks.key',
      'rmSync webhooks.key.new',
      'openSync webhooks.key.new',
      'writeFileSync webhooks.key.new',
      'fsyncSync webhooks.key.new',
      'closeSync webhooks.key.new',
      'renameSync webhooks.key.new',
      `openSync ${name}`,
      `fsyncSync ${name}`,
      `closeSync ${name}`,
    ]);
    box.seal(1, secret);
    assert.equal(made, 1);
  });

  it('that another process was killed over is synced before it seals anything, once', (t) => {
    const keyFile = join(temporaryDirectory(t), 'webhooks.key');
    new SecretBox(keyFile).seal(1, secret);
    const calls = watchFiles(t);
    const box = new SecretBox(keyFile);
    const syncs = (): number => calls.filter((call) => call.startsWith('fsyncSync')).length;
    assert.equal(syncs(), 0);
    box.seal(1, secret);
    assert.equal(syncs(), 2, 'the file and its directory');
    box.seal(1, secret);
    assert.equal(syncs(), 2);
  });

  it('is whole or not there, whichever call the process is killed at, and serves after the next start', (t) => {
    let survived = 0;
    for (let at = 1; ; at++) {
      const keyFile = join(temporaryDirectory(t), 'webhooks.key');
      // After a kill nothing more is done: no clearing up either.
      watchFiles(t, (_, nth) => {
        if (nth > at) throw fault('killed');
      });
      let blob: Buffer | undefined;
      try {
        blob = new SecretBox(keyFile).seal(1, secret);
      } catch {
        survived += 1;
      }
      t.mock.restoreAll();
      if (fs.existsSync(keyFile)) assert.equal(fs.statSync(keyFile).size, 32);
      const next = new SecretBox(keyFile);
      const again = next.seal(1, secret);
      assert.deepEqual(next.open(1, again), { secret });
      assert.equal(fs.statSync(keyFile).mode & 0o777, 0o600);
      if (blob === undefined) continue;
      assert.deepEqual(next.open(1, blob), { secret }, 'what was given out is opened by the key that is there');
      break;
    }
    assert.equal(survived, 10, 'each call of reading and of making it');
  });

  it('that cannot be written seals nothing, says why, and is made when it can', (t) => {
    const steps: readonly [string, string, string][] = [
      ['openSync', 'EACCES', 'STORAGE_FAILED'],
      ['writeFileSync', 'ENOSPC', 'STORAGE_FULL'],
      ['fsyncSync', 'EIO', 'STORAGE_FAILED'],
      ['renameSync', 'EROFS', 'STORAGE_FAILED'],
    ];
    for (const [step, code, expected] of steps) {
      const keyFile = join(temporaryDirectory(t), 'webhooks.key');
      const box = new SecretBox(keyFile);
      watchFiles(t, (name, nth) => {
        // The first call looks for a key that is there.
        if (name === step && nth > 1) throw fault(code);
      });
      assert.throws(() => box.seal(1, secret), { code: expected }, step);
      assert.throws(() => box.seal(1, secret), new RegExp(`${keyFile} cannot be (written|read): ${code}`));
      t.mock.restoreAll();
      assert.deepEqual(box.open(1, box.seal(1, secret)), { secret }, step);
    }
    const nowhere = new SecretBox(join(temporaryDirectory(t), 'not', 'there', 'webhooks.key'));
    assert.throws(() => nowhere.seal(1, secret), { code: 'STORAGE_FAILED' });
  });

  it('that was renamed but not synced with its directory is not relied on before it is', (t) => {
    const keyFile = join(temporaryDirectory(t), 'webhooks.key');
    watchFiles(t, (name) => {
      if (name === 'fsyncSync' && fs.existsSync(keyFile)) throw fault('EIO');
    });
    const box = new SecretBox(keyFile);
    assert.throws(() => box.seal(1, secret), { code: 'STORAGE_FAILED' });
    assert.throws(() => box.seal(1, secret), { code: 'STORAGE_FAILED' }, 'the file is there, and still not synced');
    t.mock.restoreAll();
    assert.deepEqual(box.open(1, box.seal(1, secret)), { secret });
  });

  it('is never made in the place of a file that is none: what it is, is said', (t) => {
    const dir = temporaryDirectory(t);
    const keyFile = join(dir, 'webhooks.key');
    new SecretBox(keyFile).seal(1, secret);
    const key = fs.readFileSync(keyFile);
    const blob = new SecretBox(keyFile).seal(1, secret);
    const places: readonly [() => void, string][] = [
      [() => fs.writeFileSync(keyFile, ''), 'has 0 bytes, a key has 32'],
      [() => fs.writeFileSync(keyFile, key.subarray(1)), 'has 31 bytes, a key has 32'],
      [() => fs.writeFileSync(keyFile, Buffer.concat([key, key])), 'has 64 bytes, a key has 32'],
      [() => fs.mkdirSync(keyFile), 'is not a regular file'],
      [() => fs.symlinkSync('/dev/zero', keyFile), 'is not a regular file'],
      [() => fs.symlinkSync('webhooks.key', keyFile), 'cannot be read: ELOOP'],
    ];
    for (const [put, what] of places) {
      fs.rmSync(keyFile, { recursive: true });
      put();
      const box = new SecretBox(keyFile);
      const opened = box.open(1, blob);
      assert.ok('unreadable' in opened && opened.unreadable.startsWith(`the key file ${keyFile} ${what}`), what);
      const before = fs.lstatSync(keyFile).size;
      assert.throws(() => box.seal(1, secret), { code: 'STORAGE_FAILED' }, what);
      assert.equal(fs.lstatSync(keyFile).size, before);
    }
    fs.rmSync(keyFile);
    fs.writeFileSync(keyFile, key);
    assert.deepEqual(new SecretBox(keyFile).open(1, blob), { secret });
  });

  it('stays in use while its file is missing or broken, and is written again with the next secret', (t) => {
    const keyFile = join(temporaryDirectory(t), 'webhooks.key');
    const box = new SecretBox(keyFile);
    const blob = box.seal(1, secret);
    const { generation } = box;
    fs.rmSync(keyFile);
    box.reload();
    assert.deepEqual(box.open(1, blob), { secret });
    const another = box.seal(2, secret);
    assert.equal(box.generation, generation);
    const next = new SecretBox(keyFile);
    assert.deepEqual([next.open(1, blob), next.open(2, another)], [{ secret }, { secret }]);
  });
});
