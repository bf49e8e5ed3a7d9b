import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { startTestServer, type TestServer } from './server.fixture.ts';

const page = '<!doctype html><title>Lineside</title>';
const script = `export const a = ${JSON.stringify('x'.repeat(5_000))};`;
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** A console of a page, a script and a picture, beside things that are none of it. */
async function withConsole(t: TestContext): Promise<TestServer & { readonly consoleDir: string }> {
  const dir = temporaryDirectory(t);
  const consoleDir = join(dir, 'console');
  mkdirSync(join(consoleDir, 'deeper'), { recursive: true });
  writeFileSync(join(dir, 'secret.txt'), 'secret');
  writeFileSync(join(consoleDir, 'index.html'), page);
  writeFileSync(join(consoleDir, 'console.js'), script);
  writeFileSync(join(consoleDir, 'console.js.gz'), gzipSync(script));
  writeFileSync(join(consoleDir, 'part-0A1B2C3D.js'), script);
  writeFileSync(join(consoleDir, 'picture.png'), randomBytes(100));
  writeFileSync(join(consoleDir, 'console.js.map'), '{}');
  writeFileSync(join(consoleDir, '.hidden'), 'secret');
  writeFileSync(join(consoleDir, 'deeper', 'index.html'), 'deeper');
  symlinkSync('../secret.txt', join(consoleDir, 'link.txt'));
  return { ...(await startTestServer(t, { parts: { consoleDir } })), consoleDir };
}

describe('the console', () => {
  it('is the first thing that a browser is led to, without a token', async (t) => {
    const { call } = await withConsole(t);
    for (const path of ['/', '/console']) {
      const { status, headers } = await call('GET', path);
      assert.deepEqual([status, headers.location], [302, '/console/']);
    }
    const { status, text, headers } = await call('GET', '/console/');
    assert.deepEqual([status, text, headers['content-type']], [200, page, 'text/html; charset=utf-8']);
    assert.equal((await call('GET', '/console/index.html')).text, page);
    const code = await call('GET', '/console/console.js');
    assert.deepEqual([code.text, code.headers['content-type']], [script, 'text/javascript; charset=utf-8']);
    assert.equal((await call('GET', '/console/picture.png')).headers['content-type'], 'image/png');
  });

  it('is bound to its own files by every answer, whatever it is', async (t) => {
    const { call } = await withConsole(t);
    for (const [method, path, wanted] of [
      ['GET', '/console/', 200],
      ['HEAD', '/console/', 200],
      ['GET', '/console', 302],
      ['GET', '/console/?x=1', 200],
      ['GET', '/console/console.js', 200],
      ['GET', '/console/nothing.js', 404],
      ['GET', '/console/a/b', 404],
      ['POST', '/console/', 405],
    ] as const) {
      const { status, headers } = await call(method, path);
      assert.equal(status, wanted, path);
      assert.equal(headers['content-security-policy'], CSP, path);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['referrer-policy'], 'no-referrer');
    }
  });

  it('comes compressed to who takes that, and not again to who has it', async (t) => {
    const { port } = await withConsole(t);
    const get = (headers: Record<string, string>) =>
      fetch(`http://127.0.0.1:${port}/console/console.js`, { headers, redirect: 'manual' });
    const plain = await get({ 'accept-encoding': 'identity' });
    const compressed = await get({ 'accept-encoding': 'br, gzip' });
    assert.equal(plain.headers.get('content-encoding'), null);
    assert.equal(compressed.headers.get('content-encoding'), 'gzip');
    assert.ok(Number(compressed.headers.get('content-length')) < script.length / 10);
    assert.equal(await compressed.text(), script);
    assert.equal((await get({ 'accept-encoding': 'gzip;q=0' })).headers.get('content-encoding'), null);
    const [a, b] = [plain, compressed].map(({ headers }) => headers.get('etag') ?? '');
    assert.notEqual(a, b);
    for (const [etag, encoding] of [
      [a, 'identity'],
      [b, 'gzip'],
      [`"other", W/${a}`, 'identity'],
    ] as const) {
      const again = await get({ 'accept-encoding': encoding, 'if-none-match': etag ?? '' });
      assert.deepEqual([again.status, await again.text()], [304, '']);
      assert.equal(again.headers.get('cache-control'), 'no-cache');
    }
    assert.equal((await get({ 'if-none-match': '"other"' })).status, 200);
  });

  it('has no way out of its directory, and serves nothing of it but a console’s files', async (t) => {
    const { call, dir } = await withConsole(t);
    for (const path of [
      '/console/../secret.txt',
      '/console/%2e%2e/secret.txt',
      '/console/..%2fsecret.txt',
      '/console/..%5csecret.txt',
      '/console/%2e%2e%2fsecret.txt',
      '/console/..%252fsecret.txt',
      '/console//etc/passwd',
      '/console/%2fetc%2fpasswd',
      '/console/deeper%2findex.html',
      '/console/deeper/index.html',
      '/console/deeper',
      '/console/link.txt',
      '/console/.hidden',
      '/console/console.js.map',
      '/console/console.js.gz',
      '/console/index.html%00',
      '/console/__proto__',
      '/console/.',
      '/console/..',
      '/console/INDEX.HTML',
      '/console/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd',
      '/console/..%5c..%5cetc%5cpasswd',
      '/console/....//console.js',
      '/console/console.js%00.html',
      '/console/%c0%ae%c0%ae/secret.txt',
      `/console/${encodeURIComponent(join(dir, 'tokens.json'))}`,
      '//console/console.js',
      '/console\\..\\secret.txt',
    ]) {
      const { status, text } = await call('GET', path);
      assert.ok([400, 404].includes(status), `${path} ${status}`);
      assert.doesNotMatch(text, /secret|root:|sha256/, path);
    }
  });

  it('that was not built is 404, and is found once it is there', async (t) => {
    const dir = join(temporaryDirectory(t), 'console');
    const { call } = await startTestServer(t, { parts: { consoleDir: dir } });
    const { status, json } = await call('GET', '/console/');
    assert.deepEqual([status, json.code, json.detail], [404, 'NOT_FOUND', 'this build has no console']);
    mkdirSync(dir);
    assert.equal((await call('GET', '/console/')).status, 404);
    writeFileSync(join(dir, 'index.html'), page);
    assert.equal((await call('GET', '/console/')).text, page);
  });

  it('has parts whose names change with their content: a browser asks for them once', async (t) => {
    const { call } = await withConsole(t);
    const caching = async (path: string) => (await call('GET', path)).headers['cache-control'];
    assert.equal(await caching('/console/part-0A1B2C3D.js'), 'public, max-age=31536000, immutable');
    assert.equal(await caching('/console/console.js'), 'no-cache');
    assert.equal(await caching('/console/part-0A1B2C3E.js'), 'no-store', 'a problem');
  });

  it('has the names that it had at first; a file is read when it is asked for, and not for a browser that has it', async (t) => {
    const { call, consoleDir } = await withConsole(t);
    const { headers } = await call('GET', '/console/console.js');
    writeFileSync(join(consoleDir, 'later.js'), script);
    assert.equal((await call('GET', '/console/later.js')).status, 404);
    rmSync(consoleDir, { recursive: true });
    const known = { 'if-none-match': String(headers.etag) };
    assert.equal((await call('GET', '/console/console.js', { headers: known })).status, 304);
    const { status, json } = await call('GET', '/console/console.js', { headers: { 'accept-encoding': 'gzip' } });
    assert.deepEqual([status, json.code], [500, 'INTERNAL']);
  });
});
