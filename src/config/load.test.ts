import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { LinesideError } from '../base/errors.ts';
import { describeConfig, load } from './load.ts';
import { addToken } from './tokens.ts';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'lineside-config-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function file(text: string): string {
  const path = join(dir, 'lineside.toml');
  writeFileSync(path, text);
  return path;
}
function invalid(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && error.code === 'CONFIG_INVALID' && pattern.test(error.message);
}

test('reads the named file, or the one LINESIDE_CONFIG names', () => {
  const path = file('[log]\ncommit_ms = 20');
  assert.equal(load(path, {}).config.log.commitMs, 20);
  assert.equal(load(undefined, { LINESIDE_CONFIG: path }).config.log.commitMs, 20);
});

test('a missing named file is a fault', () => {
  assert.throws(() => load(join(dir, 'none.toml'), {}), invalid(/cannot read the configuration: .*none.toml/));
});

test('a file that is no TOML is a fault with its place', () => {
  const path = file('[log]\ncommit_ms = = 1');
  assert.throws(() => load(path, {}), invalid(/lineside.toml:2:13: /));
});

test('throws every fault at once, with hints for the eye', () => {
  const path = file(
    '[log]\ncommit_ms = 1\n[grpc]\nlisten = ["0.0.0.0:1"]\n[tls]\ncert_file = "/none"\nkey_file = "/none2"',
  );
  const message =
    /has 4 faults:\n {2}log.commit_ms: .*\n {2}tls.cert_file: cannot be read.*\n {2}tls.key_file: .*\n {2}grpc.listen: .*credentials/;
  assert.throws(() => load(path, { LINESIDE_AUTH_TOKENS_FILE: join(dir, 'tokens.json') }), invalid(message));
});

test('a token of a gRPC role is credentials enough, one of another interface is not', () => {
  const tokens = join(dir, 'tokens.json');
  const key = file('');
  const path = join(dir, 'exposed.toml');
  writeFileSync(
    path,
    `[grpc]\nlisten = ["0.0.0.0:1"]\n[tls]\ncert_file = "${key}"\nkey_file = "${key}"\n[auth]\ntokens_file = "${tokens}"`,
  );
  assert.equal(load(path, {}, 'look').config.auth.tokensFile, tokens, 'the first token can be added');
  addToken(tokens, 'hub', ['admin'], new Date());
  assert.throws(() => load(path, {}), invalid(/has a fault:\n {2}grpc.listen: .* needs credentials/));
  addToken(tokens, 'laptop', ['operator'], new Date());
  assert.equal(load(path, {}).config.grpc.listen.length, 1);
});

test('describes every key with its value and where it is from', () => {
  const lines = describeConfig(load(file('[serial]\nextra_ports = ["/dev/pts/1"]'), { LINESIDE_LOG_COMMIT_MS: '50' }));
  assert.ok(lines.includes('serial.extra_ports = ["/dev/pts/1"]  (from file)'));
  assert.ok(lines.includes('log.commit_ms = 50  (from environment)'));
  assert.ok(lines.includes('serial.rx_gap_ms = "auto"  (from default)'));
  assert.ok(lines.includes('grpc.listen = ["127.0.0.1:50051", "unix:/run/lineside/grpc.sock"]  (from default)'));
});
