/** Processes that change one file of tokens at the same time, as an operator's scripts do. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs, { readdirSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeEach, type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { addToken } from './token-file.ts';

const root = join(import.meta.dirname, '../../..');
const adders = 8;
const each = 4;
let dir = '';
let file = '';
beforeEach((t) => {
  dir = temporaryDirectory(t as TestContext);
  file = join(dir, 'tokens.json');
});

/** A process that waits for a line on its standard input before it runs `code`. */
function prepared(code: string): ChildProcess & { readonly ready: Promise<unknown> } {
  const program = `
    import { once } from 'node:events';
    import { writeSync } from 'node:fs';
    import { addToken, revokeToken } from './src/shared/auth/token-file.ts';
    import { digestOf } from './src/shared/auth/tokens.ts';
    import { addDeviceToken, revokeDeviceTokens } from './src/collector/tokens.ts';
    const file = ${JSON.stringify(file)};
    const print = (line) => writeSync(1, line + '\\n');
    writeSync(2, 'ready');
    await once(process.stdin, 'data');
    process.stdin.destroy();
    ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: root });
  return Object.assign(child, { ready: once(child.stderr, 'data') });
}

/** What the processes print, once all were ready and have got the signal to begin. */
async function together(codes: readonly string[]): Promise<string[][]> {
  const children = codes.map(prepared);
  await Promise.all(children.map(({ ready }) => ready));
  const printed = children.map(async (child) => {
    if (child.stdout === null) throw new Error('no pipe');
    const [out, [status]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    assert.equal(status, 0);
    return out.split('\n').filter(Boolean);
  });
  for (const { stdin } of children) stdin?.write('go\n');
  return Promise.all(printed);
}

for (const [name, add, revoke] of [
  ['of a box', "addToken(file, name, ['viewer'], new Date())", 'revokeToken(file, name)'],
  ['of a collector', 'addDeviceToken(file, name)', 'revokeDeviceTokens(file, name)'],
] as const) {
  test(`tokens ${name} that were printed exist, and revoked ones are gone, with nine processes at work`, async () => {
    const doomed = Array.from({ length: each }, (_, i) => `doomed-${i}`);
    const every = (names: readonly string[], what: string): string =>
      `for (const name of ${JSON.stringify(names)}) { const token = ${what}; print(token === undefined ? name : digestOf(token).toString('hex')); }`;
    const [before = []] = await together([every(doomed, add)]);
    const codes = Array.from({ length: adders }, (_, n) =>
      every(
        Array.from({ length: each }, (_unused, i) => `new-${n}-${i}`),
        add,
      ),
    );
    const [revoked = [], ...added] = await together([every(doomed, revoke), ...codes]);
    const stored = readFileSync(file, 'utf8');
    const isStored = (hash: string): boolean => stored.includes(hash);
    assert.deepEqual(revoked, doomed);
    assert.deepEqual([before.length, added.flat().length], [each, adders * each]);
    assert.deepEqual(
      added.flat().filter((hash) => !isStored(hash)),
      [],
      'printed, and not there',
    );
    assert.deepEqual(before.filter(isStored), [], 'revoked, and still there');
    assert.deepEqual(readdirSync(dir).sort(), ['.tokens.json.lock', 'tokens.json'], 'nothing else is left');
  });
}

test('a command that is killed with the lock leaves it to the next one, and nothing of its change', async () => {
  await together([`for (const name of ['one']) print(addToken(file, name, ['viewer'], new Date()));`]);
  const before = readFileSync(file, 'utf8');
  const holder = prepared(`
    const { changeTokenFile } = await import('./src/shared/auth/token-file.ts');
    changeTokenFile(file, (text) => { print('held'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); return text; });`);
  await holder.ready;
  holder.stdin?.write('go\n');
  assert.ok(holder.stdout !== null);
  await once(holder.stdout, 'data');
  const waiting = together([`print(addToken(file, 'two', ['viewer'], new Date()));`]);
  const killed = once(holder, 'close');
  holder.kill('SIGKILL');
  await Promise.all([killed, waiting]);
  assert.ok(before.includes('one'));
  assert.match(readFileSync(file, 'utf8'), /"one"[^]*"two"/);
});

test('a command whose change another program overwrites does not report success', (t) => {
  const rename = fs.renameSync;
  t.mock.method(fs, 'renameSync', (from: string, to: string) => {
    rename(from, to);
    fs.writeFileSync(to, '{"tokens":[]}');
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  assert.throws(() => addToken(file, 'one', ['viewer'], new Date()), /another program wrote it at the same time/);
});
