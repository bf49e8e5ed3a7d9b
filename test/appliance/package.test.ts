/** The Debian package's life on a machine: installed, upgraded, removed, brought back, purged. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type Box, bootBare, PORT } from './box.ts';
import { debianPackage, nspawnMissing, trixieTree } from './nspawn.ts';

const CONFIGURATION = '/etc/lineside/lineside.toml';
const OLDER = '0.0.9';
const SOCKETS = ['', '-local', '-lan', '-hub', '-hub-local', '-hub-lan']
  .map((name) => `lineside${name}.socket`)
  .join(' ');
/** An installation waits a minute for each process, should it be slow. */
const SLOW_MS = 200_000;

/** The package as it might have been before: the same but for its version. */
function older(box: Box): void {
  using work = mkdtempDisposableSync('/var/tmp/lineside-older-');
  const root = join(work.path, 'root');
  execFileSync('dpkg-deb', ['--raw-extract', debianPackage(), root]);
  const control = join(root, 'DEBIAN/control');
  writeFileSync(control, readFileSync(control, 'utf8').replace(/^Version: .*$/m, `Version: ${OLDER}`));
  const deb = join(work.path, 'older.deb');
  execFileSync('dpkg-deb', ['--root-owner-group', '-Znone', '--build', root, deb]);
  copyFileSync(deb, box.path('/root/older.deb'));
}

/** Connects over and over, and counts the refused connections. */
const CLIENT = `
import os, socket, time
refused = made = 0
while not os.path.exists('/root/enough'):
    for family, address in ((socket.AF_UNIX, '/run/lineside/grpc.sock'), (socket.AF_INET, ('127.0.0.1', 50051)),
                            (socket.AF_UNIX, '/run/lineside/http.sock'), (socket.AF_INET, ('127.0.0.1', 8080))):
        try:
            with socket.socket(family) as client:
                client.connect(address)
                made += 1
        except OSError:
            refused += 1
    time.sleep(0.01)
print(refused, made)
`;

describe('the Debian package', { skip: nspawnMissing(), timeout: 280_000 }, () => {
  let box: Box;
  before(async () => {
    box = await bootBare();
    older(box);
  });

  const install = (file: string) => box.sh(`dpkg --install /root/${file} 2>&1 </dev/null`, SLOW_MS);
  const ready = () =>
    box.until(
      'both processes ready',
      'systemctl is-active lineside lineside-hub && lineside status && lineside outbox',
    );
  const version = () => box.sh("dpkg-query --showformat='${Version}' --show lineside");
  const sent = () => box.sh('lineside log --dir tx --from-start');

  test('installs, enables and starts both processes, and asks nothing', async () => {
    await install('older.deb');
    assert.equal(await version(), OLDER);
    assert.equal(await box.sh('systemctl is-enabled lineside'), 'enabled');
    await ready();
    assert.match(await box.sh('id lineside-hub'), /groups=.*\(lineside-hub\),.*\(lineside\)/);
    assert.equal(
      await box.sh(
        'stat --format="%a %U:%G %n" /etc/lineside /etc/lineside/ca /etc/lineside/secrets/* /var/lib/lineside*',
      ),
      [
        '755 root:lineside /etc/lineside',
        '700 root:root /etc/lineside/ca',
        '700 root:root /etc/lineside/secrets/hub',
        '700 root:root /etc/lineside/secrets/line',
        '700 lineside:lineside /var/lib/lineside',
        '700 lineside-hub:lineside-hub /var/lib/lineside-hub',
      ].join('\n'),
    );
  });

  test('an upgrade keeps the log, the records, the tokens and the edited configuration, and refuses no client', async () => {
    await box.sh(`sed -i 's/^#max_age_days = .*/max_age_days = 77/' ${CONFIGURATION}`);
    await box.sh('lineside token add reader --role viewer');
    await box.sh(`lineside open ${PORT} && lineside send before-upgrade`);
    await box.sh('lineside dict create pumps --title Pumps --scope PUBLIC');
    await box.sh(`lineside record create pumps P-1 '{"kw": 7.5}'`);
    const log = await box.until('the entry', 'lineside log --dir tx --from-start | grep before-upgrade');
    const tokens = await box.sh('sha256sum /etc/lineside/tokens.json');
    const pids = await box.sh('systemctl show --value --property=MainPID lineside lineside-hub');

    writeFileSync(box.path('/root/client.py'), CLIENT);
    const client = box.sh('python3 /root/client.py', SLOW_MS);
    await install('lineside.deb');
    assert.notEqual(await version(), OLDER);
    await ready();
    await box.sh('touch /root/enough');
    assert.match(await client, /^0 [1-9]\d+$/);

    assert.notEqual(await box.sh('systemctl show --value --property=MainPID lineside lineside-hub'), pids);
    assert.equal(await box.sh('lineside log --dir tx --from-start | grep before-upgrade'), log);
    assert.match(await box.sh('lineside record get pumps P-1 --json'), /"kw": ?7.5/);
    assert.equal(await box.sh('sha256sum /etc/lineside/tokens.json'), tokens);
    assert.equal(await box.sh(`grep -c '^max_age_days = 77' ${CONFIGURATION}`), '1');
    assert.match(await box.until('the port open again', 'lineside status | grep open'), /ttyFIELD/);
  });

  test('a service that an administrator disabled stays so', async () => {
    await box.sh('systemctl disable --now lineside 2>&1');
    await install('lineside.deb');
    assert.equal((await box.run(['systemctl', 'is-enabled', 'lineside'])).stdout.trim(), 'disabled');
    assert.equal((await box.run(['systemctl', 'is-active', 'lineside'])).stdout.trim(), 'inactive');
    await box.sh('systemctl enable --now lineside 2>&1');
    await ready();
  });

  test("renewed with its key, a certificate is the hub's after a reload and the line's after a restart", async () => {
    // Not 127.0.0.1: the line and the hub serve that in the clear.
    const shown = (port: number) =>
      box.sh(`python3 -c 'import ssl; print(ssl.get_server_certificate(("::1", ${port})))'`);
    await box.sh('lineside identity create && systemctl restart lineside');
    await ready();
    const before = await shown(50051);
    assert.match(before, /^-----BEGIN CERTIFICATE-----/);
    assert.equal(await shown(8443), before);
    await box.sh('lineside identity renew');
    await box.sh(`sed -i 's/^max_age_days = 77/max_age_days = 78/' ${CONFIGURATION} && systemctl reload lineside`);
    for (const said of ['the TLS certificate was not taken', 'configuration reloaded.*log\\.max_age_days']) {
      await box.until(said, `journalctl --unit=lineside --grep='${said}'`);
    }
    assert.equal(await shown(50051), before);
    await ready();
    const renewed = await shown(8443);
    assert.notEqual(renewed, before);
    await box.sh('systemctl restart lineside');
    await ready();
    assert.equal(await shown(50051), renewed);
  });

  test('removed, it is gone but for its data; installed again, it resumes with them on every socket', async () => {
    const listeners = `systemctl is-active ${SOCKETS}; ss -Hltn | awk '{print $4}' | sort; stat --format='%A %U:%G %n' /run/lineside/*.sock`;
    const listening = await box.sh(listeners);
    assert.match(listening, /^(active\n){6}\*:50051\n\*:8443\n127/);
    await box.sh('dpkg --remove lineside 2>&1');
    assert.equal((await box.run(['pgrep', '-u', 'lineside,lineside-hub'])).stdout, '');
    assert.equal(await box.sh('ss -Hltn'), '');
    assert.equal(await box.sh('ls -d /usr/lib/lineside /usr/bin/lineside 2>/dev/null || true'), '');
    await box.sh('test -s /var/lib/lineside/log.db && test -s /var/lib/lineside-hub/refdata.db');

    await install('lineside.deb');
    await ready();
    assert.match(await sent(), /before-upgrade/);
    assert.match(await box.sh('lineside record get pumps P-1 --json'), /"kw": ?7.5/);
    assert.equal(await box.sh(listeners), listening);
    assert.equal(await box.sh('systemctl show --value --property=NRestarts lineside lineside-hub'), '0\n\n0');
  });

  test('is installed even where the service cannot start, and says so; once corrected, the service comes', async () => {
    await box.sh(`cp ${CONFIGURATION} /root/good.toml && echo 'nonsense = [' >>${CONFIGURATION}`);
    const said = await install('lineside.deb');
    assert.match(said, /lineside: installed, but it has not started yet; see: systemctl status/);
    assert.equal(await box.sh("dpkg-query --showformat='${db:Status-Status}' --show lineside"), 'installed');
    await box.sh(`cp /root/good.toml ${CONFIGURATION}`);
    await ready();
  });

  test('a purge leaves nothing of it, users and data included', async () => {
    await box.sh('dpkg --purge lineside 2>&1');
    assert.equal(await box.sh('ls -d /etc/lineside /var/lib/lineside* /run/lineside 2>/dev/null || true'), '');
    assert.equal(await box.sh('getent passwd lineside lineside-hub || getent group lineside lineside-hub || true'), '');
    assert.equal(
      await box.sh('find / -xdev -name "lineside*" ! -path "/root/*" ! -path "/var/tmp/*" ! -path "/run/*"'),
      '',
    );
    assert.equal((await box.run(['systemctl', 'list-unit-files', '--no-legend', 'lineside*'])).stdout, '');
  });
});

describe('the Debian package in a tree that is not running', { skip: nspawnMissing(), timeout: 120_000 }, () => {
  test('is installed with its users, and enabled for the first boot', () => {
    using scratch = mkdtempDisposableSync('/var/tmp/lineside-tree-');
    const work = scratch.path;
    for (const name of ['upper', 'overlay', 'root']) mkdirSync(join(work, name));
    const script = `
      mount -t overlay overlay -o lowerdir="$1",upperdir="$2/upper",workdir="$2/overlay" "$2/root"
      cp "$3" "$2/root/root/lineside.deb"
      mount -t proc proc "$2/root/proc"
      chroot "$2/root" dpkg --install /root/lineside.deb 2>&1
      chroot "$2/root" systemctl is-enabled lineside
      chroot "$2/root" getent passwd lineside lineside-hub
      chroot "$2/root" lineside --version`;
    const said = execFileSync('unshare', ['-m', 'sh', '-ec', script, 'sh', trixieTree(), work, debianPackage()], {
      encoding: 'utf8',
    });
    assert.match(said, /^enabled\nlineside:x:.*\nlineside-hub:x:.*\n\d+\.\d+\.\d+\n$/m);
  });
});
