/** The units as Debian 13's systemd judges them: no fault in any, and exposed no further than was set. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { before, describe, test } from 'node:test';
import { nspawnMissing, trixieTree } from './nspawn.ts';

const source = resolve(import.meta.dirname, '../../systemd');
const units = readdirSync(source).filter((name) => /\.(service|socket)$/.test(name));
/** Tenths of systemd's scale, on which nothing is 0 and a bare unit 94. */
const LIMITS = [
  ['lineside.service', 6],
  ['lineside-hub.service', 12],
  ['lineside-admin.service', 28],
  ['lineside-admin-restore.service', 17],
] as const;

describe('the units before Debian 13', { skip: nspawnMissing() }, () => {
  let tree: string;
  before(() => {
    tree = trixieTree();
  });

  /** Runs a command in the tree with a directory of this test's own at the path it is given. */
  function inTree(command: (dir: string) => readonly string[], fill: (dir: string) => void) {
    using dir = mkdtempDisposableSync(join(tree, 'tmp/units-'));
    fill(dir.path);
    return spawnSync('chroot', [tree, ...command(`/tmp/${basename(dir.path)}`)], { encoding: 'utf8', timeout: 60_000 });
  }

  function exposure(unit: string, threshold: number, change: (text: string) => string = (text) => text) {
    const options = ['security', '--offline=true', '--no-pager', `--threshold=${threshold}`];
    return inTree(
      (dir) => ['systemd-analyze', ...options, `${dir}/${unit}`],
      (dir) => writeFileSync(join(dir, unit), change(readFileSync(join(source, unit), 'utf8'))),
    );
  }

  for (const [unit, limit] of LIMITS) {
    test(`${unit} is exposed by ${limit / 10} at most`, (t) => {
      const judged = exposure(unit, limit);
      assert.equal(judged.status, 0, judged.stdout + judged.stderr);
      t.diagnostic(judged.stdout.trim().split('\n').at(-1) ?? '');
      const softer = exposure(unit, limit, (text) =>
        text.replace(/^(CapabilityBoundingSet|SystemCallFilter)=.*$/gm, ''),
      );
      assert.notEqual(softer.status, 0, 'a unit without its filters would be seen');
    });

    test(`${unit} explains each directive that it lacks`, () => {
      const head = readFileSync(join(source, unit), 'utf8').split('[Unit]')[0] ?? '';
      const lacking = exposure(unit, limit)
        .stdout.split('\n')
        .filter((line) => line.startsWith('✗'))
        .map((line) => /^✗ (\w+)=/.exec(line)?.[1] ?? '')
        // Both name a group or device that is given on purpose, beside the directive.
        .filter((name) => name !== 'SupplementaryGroups' && name !== 'DeviceAllow');
      assert.ok(lacking.length > 0);
      assert.deepEqual(
        lacking.filter((name) => !head.includes(name)),
        [],
      );
    });
  }

  test('systemd finds no fault with any unit', () => {
    const verify = (change: (text: string) => string) =>
      inTree(
        (dir) => ['sh', '-c', `systemd-analyze verify --man=no ${units.map((unit) => `${dir}/${unit}`).join(' ')}`],
        (dir) => {
          // What they start is not installed there.
          for (const unit of units) {
            const text = readFileSync(join(source, unit), 'utf8');
            writeFileSync(
              join(dir, unit),
              change(text.replaceAll(/(?<==|-)\/usr\/(bin|lib)\/lineside\S*/g, '/usr/bin/env')),
            );
          }
        },
      )
        .stderr.split('\n')
        .filter((line) => line.includes('lineside'));
    assert.deepEqual(
      verify((text) => text),
      [],
    );
    assert.notDeepEqual(
      verify((text) => text.replace('UMask=', 'YouMask=')),
      [],
      'a fault would be seen',
    );
  });

  test('udev finds no fault with the rules, nor systemd with the users', () => {
    const checks = ['udevadm verify D/udev/*.rules', 'systemd-sysusers --dry-run D/sysusers.d/*.conf'];
    for (const check of checks) {
      const checked = inTree(
        (dir) => ['sh', '-c', check.replaceAll('D/', `${dir}/`)],
        (dir) => {
          for (const name of ['udev', 'sysusers.d']) cpSync(join(source, name), join(dir, name), { recursive: true });
        },
      );
      assert.equal(checked.status, 0, `${check}: ${checked.stdout}${checked.stderr}`);
      assert.doesNotMatch(checked.stderr, /not valid|[Ff]ailed|[Ii]gnoring/, check);
    }
  });
});
