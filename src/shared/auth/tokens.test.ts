import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, type TestContext, test } from 'node:test';
import { LinesideError } from '../base/errors.ts';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { recordingLogger } from '../base/logger.fixture.ts';
import { silentLogger } from '../base/logger.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { addToken, revokeToken } from './token-file.ts';
import { TokenReader } from './token-reader.ts';
import { listTokens } from './tokens.ts';

const at = new Date('2026-01-02T03:04:05Z');
let dir = '';
let file = '';
beforeEach((t) => {
  dir = temporaryDirectory(t as TestContext);
  file = join(dir, 'tokens.json');
});

function refused(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && pattern.test(`${error.code} ${error.message}`);
}

test('adds, lists and revokes; the file holds the hash only', () => {
  const token = addToken(file, 'laptop-1', ['viewer', 'operator', 'viewer'], at);
  assert.match(token, /^lsd_[A-Za-z0-9_-]{43}$/);
  const other = addToken(file, 'hub', ['reader'], at);
  assert.notEqual(token, other);
  const [first] = listTokens(file);
  assert.deepEqual(
    [first?.name, first?.roles, first?.createdAt],
    ['laptop-1', ['viewer', 'operator'], at.toISOString()],
  );
  assert.ok(!readFileSync(file, 'utf8').includes(token.slice(4)));
  assert.equal(statSync(file).mode & 0o777, 0o640);
  revokeToken(file, 'laptop-1');
  assert.deepEqual(
    listTokens(file).map(({ name }) => name),
    ['hub'],
  );
  assert.deepEqual(readdirSync(dir).sort(), ['.tokens.json.lock', 'tokens.json'], 'no temporary file stays');
});

test('refuses names, roles and files that are none', () => {
  addToken(file, 'a', ['viewer'], at);
  assert.throws(() => addToken(file, 'a', ['viewer'], at), refused(/INVALID_ARGUMENT .*already/));
  for (const name of ['', 'A', 'a b', 'x'.repeat(65), '../x']) {
    assert.throws(() => addToken(file, name, ['viewer'], at), refused(/INVALID_ARGUMENT .*no name/), name);
  }
  assert.throws(() => addToken(file, 'b', ['root'], at), refused(/no such role: "root"/));
  assert.throws(() => addToken(file, 'b', [], at), refused(/needs a role/));
  assert.throws(() => addToken(file, 'local', ['admin'], at), refused(/"local" is who comes through the Unix socket/));
  assert.throws(() => revokeToken(file, 'b'), refused(/no token named "b"/));
  for (const text of [
    '',
    '[]',
    '{"tokens": [{}]}',
    '{"tokens": [{"name":"x","roles":["viewer"],"sha256":"0","createdAt":""}]}',
  ]) {
    writeFileSync(file, text);
    assert.throws(() => addToken(file, 'b', ['viewer'], at), refused(/CONFIG_INVALID/), text);
  }
});

test('with keepsAdmin the last token with the role admin stays, and every other one goes', () => {
  for (const name of ['first', 'second']) addToken(file, name, ['viewer', 'admin'], at);
  addToken(file, 'wall', ['viewer'], at);
  revokeToken(file, 'first', true);
  assert.throws(
    () => revokeToken(file, 'second', true),
    refused(/CONFLICT "second" is the last token with the role admin/),
  );
  revokeToken(file, 'wall', true);
  assert.deepEqual(
    listTokens(file).map(({ name }) => name),
    ['second'],
  );
  revokeToken(file, 'second');
  assert.deepEqual(listTokens(file), []);
});

test('a file that cannot be written keeps what it held', () => {
  assert.throws(
    () => addToken(join(dir, 'none', 'tokens.json'), 'a', ['viewer'], at),
    refused(/CONFIG_INVALID cannot write/),
  );
});

test('the reader sees an added token at once, and a revoked one within a second', async () => {
  const clock = new FakeClock();
  const reader = new TokenReader(file, clock, silentLogger);
  assert.equal(await reader.find('lsd_x'), undefined);
  const token = addToken(file, 'laptop', ['viewer'], at);
  assert.equal((await reader.find(token))?.name, 'laptop');
  assert.equal(await reader.find(`${token}x`), undefined);
  const stale = reader.find('lsd_y');
  const second = addToken(file, 'second', ['viewer'], at);
  const found = reader.find(second);
  assert.equal(await stale, undefined);
  assert.equal((await found)?.name, 'second', 'a look that began before the token was added does not decide');
  revokeToken(file, 'laptop');
  clock.advance(1_000);
  assert.equal(await reader.find(token), undefined);
});

test('the reader lists the owners of the tokens, of a missing file none, of a damaged one nothing', async () => {
  const clock = new FakeClock();
  const reader = new TokenReader(file, clock, silentLogger);
  assert.deepEqual(await reader.owners(), []);
  addToken(file, 'laptop', ['viewer', 'admin'], at);
  assert.deepEqual(await reader.owners(), [], 'within the second it does not look again');
  clock.advance(1_000);
  assert.deepEqual(await reader.owners(), [{ name: 'laptop', roles: ['viewer', 'admin'] }]);
  writeFileSync(file, '{');
  for (let i = 0; i < 2; i++) {
    clock.advance(1_000);
    assert.equal(await reader.owners(), undefined);
  }
  rmSync(file);
  clock.advance(1_000);
  assert.deepEqual(await reader.owners(), []);
});

test('a damaged file admits no caller, and is reported once', async () => {
  const clock = new FakeClock();
  const { logger, lines } = recordingLogger();
  const reader = new TokenReader(file, clock, logger);
  const token = addToken(file, 'laptop', ['viewer'], at);
  assert.equal((await reader.find(token))?.name, 'laptop');
  writeFileSync(file, '{');
  for (let i = 0; i < 3; i++) {
    clock.advance(1_000);
    assert.equal(await reader.find(token), undefined);
  }
  assert.equal(lines.length, 1);
});
