/**
 * The scripts that build the package and the image when a step fails, such as a download: each runs in a copy of the
 * checkout, with its next program replaced by one that fails. That the steps succeed is shown by the image's own tests, which
 * build it by the documented command.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, test } from 'node:test';

const repository = resolve(import.meta.dirname, '../..');
/** What the scripts read; the packages are linked. */
const COPIED = [
  'docs',
  'image',
  'proto',
  'scripts',
  'systemd',
  'package.json',
  'package-lock.json',
  'README.md',
  'LICENSE',
];
/** The other processor, for which the package is cross-compiled. */
const { arch, cpu, triple } =
  process.arch === 'x64'
    ? { arch: 'arm64', cpu: 'arm64', triple: 'aarch64-linux-gnu' }
    : { arch: 'amd64', cpu: 'x64', triple: 'x86_64-linux-gnu' };
const STATUS_OF_FAILED = 7;

const work = mkdtempSync(join(tmpdir(), 'lineside-steps-'));
after(() => rmSync(work, { recursive: true }));

interface Step {
  readonly script: string;
  readonly args?: readonly string[];
  /** Programs that come before the failed one: shell that takes their place. */
  readonly before?: Readonly<Record<string, string>>;
  readonly failed: string;
  /** The last line of the error output. */
  readonly says: RegExp;
  /** What the failed program is given. */
  readonly given?: RegExp;
}

const RETRIES = /Acquire::Retries "5"/;
/** mmdebstrap's last argument is the directory that it makes. */
const SYSROOT = `for last; do :; done; mkdir -p "$last/usr/lib/${triple}"`;
const COMPILER = { [`${triple}-g++`]: '' };

const STEPS: readonly Step[] = [
  {
    script: 'image/tools',
    failed: 'mmdebstrap',
    says: /^image\/tools: cannot build the Debian 13 tree: mmdebstrap failed/,
    given: RETRIES,
  },
  {
    script: 'image/tree',
    before: { 'image/tools': 'echo /nowhere' },
    failed: 'mmdebstrap',
    says: /^image\/tree: cannot install the packages of the image: mmdebstrap failed/,
    given: RETRIES,
  },
  {
    script: 'image/build',
    before: { 'image/tools': 'echo /nowhere', 'image/tree': 'echo /nowhere' },
    failed: 'scripts/package',
    says: /^image\/build: cannot build lineside's package: scripts\/package arm64 failed/,
  },
  {
    script: 'scripts/package',
    args: [arch],
    before: { 'scripts/build': 'mkdir -p "$1" && : >"$1/main.js"' },
    failed: 'scripts/cross-modules',
    says: /^scripts\/cross-modules is broken$/,
  },
  {
    script: 'scripts/cross-modules',
    args: [cpu],
    before: COMPILER,
    failed: 'mmdebstrap',
    says: /^cross-modules: cannot fetch Debian 12's libraries for \S+: mmdebstrap failed/,
    given: RETRIES,
  },
  {
    script: 'scripts/cross-modules',
    args: [cpu],
    before: { ...COMPILER, mmdebstrap: SYSROOT },
    failed: 'npm',
    says: /^cross-modules: cannot download node-linux-\S+: npm failed/,
    given: /--fetch-retries=5/,
  },
];

/** A copy of the checkout with nothing built in it. */
function checkout(): string {
  const copy = mkdtempSync(join(work, 'checkout-'));
  for (const name of COPIED) cpSync(join(repository, name), join(copy, name), { recursive: true });
  for (const name of ['src', 'node_modules']) symlinkSync(join(repository, name), join(copy, name));
  mkdirSync(join(copy, 'bin'));
  return copy;
}

/** Puts a program of the checkout's, or one that the scripts find by PATH, to another's place. */
function replace(copy: string, program: string, shell: string): void {
  const path = join(copy, program.includes('/') ? program : `bin/${program}`);
  writeFileSync(path, `#!/bin/sh\n${shell}\n`, { mode: 0o755 });
}

describe('a failed step', { skip: process.getuid?.() !== 0 && 'building the image needs root' }, () => {
  for (const { script, args = [], before = {}, failed, says, given = /(?:)/ } of STEPS) {
    test(`${script} ends with its own message when ${failed} fails, which inherits no lock`, () => {
      const copy = checkout();
      const [locks, calls] = [join(copy, 'locks'), join(copy, 'calls')];
      for (const [program, shell] of Object.entries(before)) replace(copy, program, shell);
      replace(
        copy,
        failed,
        `find /proc/self/fd -lname '*lock' -printf '%l\\n' >${locks}; printf '%s\\n' "$*" >${calls}
        echo '${failed} is broken' >&2; exit ${STATUS_OF_FAILED}`,
      );
      const ran = spawnSync(join(copy, script), args, {
        encoding: 'utf8',
        env: { ...process.env, PATH: `${copy}/bin:${process.env['PATH']}` },
      });
      assert.ok(existsSync(calls), `${failed} was not called: ${ran.stderr}`);
      assert.notEqual(ran.status, 0);
      assert.equal(ran.stdout, '', 'no path is printed');
      const lines = ran.stderr.trim().split('\n');
      assert.match(lines.at(-1) ?? '', says, ran.stderr);
      assert.ok(lines.includes(`${failed} is broken`), ran.stderr);
      assert.match(readFileSync(calls, 'utf8'), given);
      assert.equal(readFileSync(locks, 'utf8'), '');
    });
  }
});
