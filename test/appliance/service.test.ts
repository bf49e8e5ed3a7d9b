/** The installed service under systemd: what systemctl says and does. That a killed process comes back alone: versions.test.ts. */
import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { newRoot, testBox } from '../../src/appliance/update/update.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Box, bootBox, dropIn, PORT } from './box.ts';
import { nspawnMissing } from './nspawn.ts';

const missing = nspawnMissing();
/** A request of the administration: token, method, path, body ("@FILE": the content of a file). Prints its status and answer. */
const ASK = `const [token, method, path, given] = process.argv.slice(2);
const isFile = given?.startsWith('@') === true;
const type = isFile ? 'application/octet-stream' : 'application/json';
const body = isFile ? require('node:fs').readFileSync(given.slice(1)) : given;
const headers = { authorization: 'Bearer ' + token, ...(given && { 'content-type': type }) };
const answer = await fetch('http://127.0.0.1:8080/api/v1/admin/' + path, { method, headers, body });
console.log(answer.status, (await answer.text()).slice(0, 500_000));
`;
const LOCAL = ['127.0.0.1:50051', '127.0.0.1:8080'];

describe('the service under systemd', { skip: missing, timeout: 280_000 }, () => {
  let box: Box;
  before(async () => {
    box = await bootBox();
    await box.sh(`lineside open ${PORT}`);
  });

  const property = (unit: string, name: string) => box.sh(`systemctl show --value --property=${name} ${unit}`);
  const pids = async () => [await property('lineside', 'MainPID'), await property('lineside-hub', 'MainPID')];
  const states = async () =>
    (await box.run(['systemctl', 'is-active', 'lineside', 'lineside-hub'])).stdout.split('\n', 2);
  const listening = async () =>
    (await box.sh(`ss -Hltn | awk '{print $4}' | sort`)).split('\n').filter((line) => line !== '');
  const ready = () =>
    box.until('both ready', 'systemctl is-active lineside lineside-hub && lineside status && lineside outbox');

  let chief = '';
  /** Requests with the token of an administrator. */
  const asking = async () => {
    chief ||= await box.sh(
      'umask 077; lineside token add chief --role admin | tail -n 1 >/root/chief; cat /root/chief',
    );
    writeFileSync(box.path('/root/ask.cjs'), `(async () => {${ASK}})()`);
    return (...words: string[]) => box.sh(`/usr/lib/lineside/node /root/ask.cjs ${chief} ${words.join(' ')}`);
  };

  /** The same by the command line, as from another machine. */
  const remote = async (line: string) => {
    await asking();
    return box.sh(`lineside --host 127.0.0.1 --token-file /root/chief ${line}`);
  };

  test('is ready when systemd says so, and its status lines say what matters', async () => {
    const says = (unit: string, what: string) =>
      box.until(what, `systemctl show --value --property=StatusText ${unit} | grep "^${what}"`, 15_000);
    await says('lineside', 'open /dev/ttyFIELD 115200 8N1, log ');
    // The first facts of the device may have been written by then.
    await says('lineside-hub', 'outbox [0-9]* waiting');
    assert.deepEqual(
      [await property('lineside', 'Type'), await property('lineside-hub', 'Type')],
      ['notify', 'notify'],
    );
  });

  test('listens on loopback addresses and its Unix sockets, and nowhere else', async () => {
    assert.deepEqual(await listening(), LOCAL);
    assert.equal(
      await box.sh('stat --format="%A %U %G %n" /run/lineside /run/lineside/*'),
      [
        'drwxrwxr-t root lineside /run/lineside',
        'srw-rw---- root lineside /run/lineside/grpc.sock',
        'srw-rw---- root lineside /run/lineside/http.sock',
      ].join('\n'),
    );
  });

  test('sends, receives and stores records for the members of group lineside, and for no other user', async () => {
    const member = 'setpriv --reuid=nobody --regid=nogroup --groups=lineside';
    await box.sh(`${member} lineside send "to the device"`);
    await until('the bytes on the line', () => box.received().toString().endsWith('to the device'));
    await box.pty.write(Buffer.from('from the device'));
    assert.match(await box.until('the packet', `${member} lineside receive`), /from the device/);
    await box.sh(`${member} lineside dict create pumps --title Pumps --scope PUBLIC`);
    await box.sh(`${member} lineside record create pumps P-1 '{"kw": 7.5}'`);
    assert.match(await box.sh('lineside record get pumps P-1 --json'), /"kw": ?7.5/);
    for (const command of ['status', 'dict list']) {
      const refused = await box.run([
        'sh',
        '-c',
        `setpriv --reuid=nobody --regid=nogroup --clear-groups lineside ${command}`,
      ]);
      assert.notEqual(refused.status, 0, command);
      assert.match(refused.stderr, /permission|EACCES/i);
    }
  });

  test('the thread of searches gives way to the others', async () => {
    assert.match(await box.sh('lineside log --grep "to the device"'), /to the device/);
    const pid = (await box.sh('systemctl show --value --property=MainPID lineside')).trim();
    const threads = await box.sh(`ps -L -o ni=,comm= -p ${pid}`);
    assert.match(threads, /^ *19 lineside-search$/m);
    assert.match(threads, /^ *0 lineside-line$/m);
    const status = await box.sh(`cat $(grep -l lineside-search /proc/${pid}/task/*/comm | sed s/comm$/status/)`);
    assert.match(status, /^Cpus_allowed_list:\s*\d+$/m);
  });

  test('the hub learns of the line through its socket', async () => {
    assert.match(
      await box.until('the record of the line', 'lineside record list device.line --json | grep ttyFIELD'),
      /open/,
    );
  });

  test('stop ends both and closes every socket; start brings both back, with the port open', async () => {
    await box.sh('systemctl stop lineside');
    // The hub is asked at the same moment and may take longer.
    await box.until(
      'the hub stopped',
      '! systemctl --quiet is-active lineside-hub.service lineside-hub.socket',
      20_000,
    );
    assert.deepEqual(await states(), ['inactive', 'inactive']);
    assert.deepEqual(await listening(), []);
    assert.equal(await box.sh('ls /run/lineside'), '');
    await box.sh('systemctl start lineside');
    await ready();
    assert.match(await box.sh('lineside status'), /open \/dev\/ttyFIELD/);
    assert.deepEqual(await listening(), LOCAL);
  });

  test('reload reaches both, and neither ends', async () => {
    const before = await pids();
    const heard = async (unit: string) =>
      Number(await box.sh(`journalctl --unit=${unit} --grep=reload | grep --count . || true`));
    const counts = [await heard('lineside'), await heard('lineside-hub')];
    await box.sh('systemctl reload lineside');
    await ready();
    assert.deepEqual(await pids(), before);
    assert.deepEqual(
      [(await heard('lineside')) > (counts[0] ?? 0), (await heard('lineside-hub')) > (counts[1] ?? 0)],
      [true, true],
    );
  });

  test('administration over HTTP is done by the helper, as root and in its sandbox, and by no other user of the socket', async () => {
    const ask = await asking();
    assert.match(await remote('token add wall --role viewer'), /lsd_/);
    assert.equal(await box.sh('stat --format="%a %U:%G" /etc/lineside/tokens.json'), '640 root:lineside');
    assert.match(await remote('token list'), /chief +admin[^]*wall +viewer/);
    assert.equal(await remote('token revoke wall'), 'wall is revoked');
    await box.sh('HOME=/root lineside profile add here --host 127.0.0.1 --token-file /root/chief');
    assert.match(await box.sh('HOME=/root lineside fleet run --all -- token list'), /^here +done .*chief +admin/m);
    assert.match(await ask('DELETE', 'tokens/chief'), /^409 .*last token with the role admin/);

    // What the sandbox keeps from the doctor would be a finding that root's own does not have.
    type Checks = { checks: { name: string; state: string; findings: object[] }[] };
    const states = (json: string) =>
      (JSON.parse(json) as Checks).checks.map(({ name, state, findings }) => `${name} ${state} ${findings.length}`);
    const found = await remote('doctor --json || true');
    assert.deepEqual(states(found), states(await box.sh('lineside doctor --json || true')));
    await remote('support-bundle --output /root/support.tar.gz');
    assert.match(await box.sh('tar tzf /root/support.tar.gz'), /doctor/);
    await remote('backup /root/over.backup');
    assert.match(await box.sh('tar tf /root/over.backup'), /^etc\//);
    assert.match(await ask('GET', 'update'), /^501 .*sudo apt upgrade lineside/);
    assert.equal(await box.sh('ls /var/lib/lineside-admin'), 'audit.jsonl');
    assert.match(
      await box.sh('journalctl --unit=lineside-admin'),
      /administration verb=doctor by=chief args=\{\} outcome=done/,
    );

    assert.equal(await box.sh('stat --format="%A %U %G" /run/lineside-admin.sock'), 'srw-rw---- root lineside-hub');
    const connect = `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("/run/lineside-admin.sock")'`;
    const member = await box.run(['sh', '-c', `setpriv --reuid=nobody --regid=nogroup --groups=lineside ${connect}`]);
    assert.match(member.stderr, /PermissionError/);

    const before = await pids();
    assert.match(await ask('POST', 'restart'), /^204/);
    await until('both to be others', async () => (await pids()).every((pid, at) => pid !== '0' && pid !== before[at]));
    await ready();
  });

  test('the configuration is changed over HTTP in the sandbox of the helper: reloaded, with owner and mode, and put back', async () => {
    const ask = await asking();
    const file = '/etc/lineside/lineside.toml';
    const before = await box.sh(`cat ${file}`);
    const read = JSON.parse((await ask('GET', 'configuration')).slice('200 '.length)) as { text: string; hash: string };
    assert.deepEqual([read.text.trimEnd(), /"hidden":0/.test(JSON.stringify(read))], [before, true]);
    const [line, hub] = await pids();
    const text = `${read.text}\n[kafka]\n[log]\n`
      .replace(/^\[kafka\]$/m, '[kafka]\npartitions = 4')
      .replace(/^\[log\]$/m, '[log]\ncommit_ms = 500\nqueue_bytes = "1MiB"')
      .replace(/\n\[kafka\]\n\[log\]\n$/, '');
    const body = (given: object) => `'${JSON.stringify(given).replaceAll("'", "'\\''")}'`;
    // The hub restarts for it, after the answer.
    const changed = await ask('PUT', 'configuration', body({ hash: read.hash, text }));
    assert.match(
      changed,
      /^200 .*"live":\["log.commit_ms"\],"hub":\["kafka.partitions"\],"restart":\["log.queue_bytes"\],"unused":\[\],"isReloaded":true/,
    );
    await until('another hub', async () => !['0', hub].includes((await pids())[1]));
    await ready();
    assert.equal((await pids())[0], line);
    assert.equal(await box.sh(`stat --format="%a %U:%G" ${file} ${file}.previous`), '644 root:root\n644 root:root');
    await box.until(
      'the restart to be named',
      'systemctl show --value --property=StatusText lineside | grep "RESTART NEEDED for log.queue_bytes"',
    );
    const own = text.replace('/etc/lineside/tls/server.crt', '/etc/passwd');
    const { hash } = JSON.parse((await ask('GET', 'configuration')).slice('200 '.length)) as { hash: string };
    assert.match(
      await ask('PUT', 'configuration', body({ hash, text: own })),
      /^422 .*tls\.cert_file: names a place on the box/,
    );
    assert.match(await ask('POST', 'configuration/undo', body({ hash })), /^200 .*"isReloaded":true/);
    assert.equal(await box.sh(`cat ${file}`), before);
    // It can write the configuration, its own state and what the commands change, and can run nothing that it wrote.
    const places =
      '/ /boot /dev/shm /etc /etc/lineside /etc/systemd/system /root /run /run/systemd/system /usr /usr/lib/lineside /var/lib /var/lib/lineside-admin /var/tmp';
    const probe = `for dir in ${places}; do (: >$dir/probe) 2>/dev/null || continue; echo $dir; cp /usr/bin/echo $dir/probe; ! $dir/probe ran 2>/dev/null; rm $dir/probe; done`;
    const helper = await property('lineside-admin', 'MainPID');
    assert.equal(
      await box.sh(`nsenter --target ${helper} --mount sh -c '${probe}'`),
      '/etc/lineside\n/var/lib/lineside-admin\n/var/tmp',
    );
    await box.until(
      'no restart to be needed',
      '! systemctl show --value --property=StatusText lineside | grep "RESTART NEEDED"',
    );
    await ready();
  });

  test('an update that is uploaded is checked and installed by the helper and its unit, each in its sandbox', async (t) => {
    const card = testBox(t);
    await box.sh('mkdir -p /boot/firmware /var/slots && mount -t tmpfs tmpfs /boot/firmware');
    cpSync(card.at('boot'), box.path('/boot/firmware'), { recursive: true });
    for (const [slot, name] of [
      ['a', 'p2'],
      ['b', 'p3'],
    ] as const)
      cpSync(card.at(`root-${slot}`), box.path(`/var/slots/${name}`));
    cpSync(card.at('board'), box.path('/usr/lib/lineside/board'));
    cpSync(card.at('update.pub'), box.path('/usr/lib/lineside/update.pub'));
    writeFileSync(box.path('/run/lineside-boot'), 'SLOT=a\nTRYING=no\nPART=/var/slots/p\n');
    const unit = 'lineside-admin-update.service';
    cpSync(join(import.meta.dirname, '../../image/units', unit), box.path(`/etc/systemd/system/${unit}`));
    // In the place of partitions.
    dropIn(box, unit, '[Service]\nReadWritePaths=/var/slots\n');
    await box.sh('mount -o remount,ro /boot/firmware && systemctl daemon-reload');
    const ask = await asking();

    assert.match(await ask('GET', 'update'), /^200 .*"running":"a".*"trying":null/);
    cpSync(card.bundle(), box.path('/root/new.update'));
    const body = `'{"sha256":"${(await box.sh('sha256sum </root/new.update')).split(' ')[0]}"}'`;
    assert.match(await ask('POST', 'update/try'), /^409 .*no update waits/);
    assert.match(await remote('update install /root/new.update'), /^lineside 1\.3\.0 is in slot b /m);
    assert.match(await ask('GET', 'work'), /"update":\{"state":"done".*"result":"1\.3\.0"/);
    assert.match(await ask('GET', 'update'), /^200 .*"running":"a".*"trying":"b","triesLeft":3/);
    assert.ok(readFileSync(box.path('/var/slots/p3')).subarray(0, newRoot.length).equals(newRoot));
    assert.deepEqual(readdirSync(box.path('/boot/firmware/b')).length, 4);
    assert.match(await box.sh('findmnt -no OPTIONS /boot/firmware'), /^ro,/);
    assert.equal(await box.sh('ls /var/lib/lineside-admin'), 'audit.jsonl');

    // A unit that is killed has no outcome, and leaves nothing.
    assert.match(await ask('PUT', 'update/bundle', '@/root/new.update'), /^200/);
    writeFileSync(box.path('/var/slots/running.json'), '{"state":"running"}');
    const copy = '/usr/bin/install -m 644 /var/slots/running.json /run/lineside-work/update.json';
    dropIn(box, unit, `[Service]\nExecStart=\nExecStart=/usr/bin/sleep 60\nExecStartPost=${copy}\n`, 'slow');
    await box.sh('systemctl daemon-reload');
    assert.match(await ask('POST', 'update/install', body), /^204/);
    assert.match(await ask('GET', 'backup'), /^409 .*an update is being installed/);
    await box.sh(`systemctl kill --kill-whom=main --signal=KILL ${unit}`);
    await until('the outcome', async () => /"state":"aborted"/.test(await ask('GET', 'work')));
    await box.until('nothing of it', '[ "$(ls /var/lib/lineside-admin)" = audit.jsonl ]');

    // Nor does a helper that is killed, or a power failure.
    assert.match(await ask('PUT', 'update/bundle', '@/root/new.update'), /^200/);
    assert.match(await box.sh('ls /var/lib/lineside-admin'), /upload/);
    await box.sh('systemctl kill --kill-whom=main --signal=KILL lineside-admin');
    await box.until('nothing of it', '[ "$(ls /var/lib/lineside-admin)" = audit.jsonl ]');
    await box.sh('cd /var/lib/lineside-admin && mkdir files && touch files/file upload update.bundle restore.backup');
    await box.sh('systemd-tmpfiles --remove --boot --prefix=/var/lib/lineside-admin');
    assert.equal(await box.sh('ls /var/lib/lineside-admin'), 'audit.jsonl');
    await box.sh('umount /boot/firmware && rm /run/lineside-boot');
  });

  test('a backup that is uploaded is restored by its unit in its sandbox, and tokens and keys stay those of the box', async () => {
    const ask = await asking();
    const name = await box.sh('hostname');
    await box.sh('lineside dict create valves --title Valves --scope PUBLIC');
    await box.sh('echo of-before >/etc/lineside/secrets/hub/restored && lineside backup --no-log /root/box.backup');
    await box.sh(
      'echo of-now >/etc/lineside/secrets/hub/restored && lineside dict create hoses --title Hoses --scope PUBLIC',
    );
    await box.sh('lineside token add later --role viewer');
    const tokens = await box.sh(
      'sha256sum /etc/lineside/tokens.json && stat --format="%a %U:%G" /etc/lineside/tokens.json',
    );
    const [line] = await pids();
    const { sha256, ...contents } = JSON.parse(
      (await ask('PUT', 'restore/backup', '@/root/box.backup')).slice(4),
    ) as Record<string, unknown>;
    assert.deepEqual([contents['withKeys'], contents['logBytes']], [true, null]);
    const begin = (confirm: string) => ask('POST', 'restore', `'${JSON.stringify({ sha256, confirm })}'`);
    assert.match(await begin(`${name}x`), /^422 .*is not the name of this box/);
    // The service is stopped and started again meanwhile.
    assert.match(await remote(`restore /root/box.backup --confirm ${name}`), /^the box is lineside-[0-9a-f]+ again/m);
    assert.ok(!['0', line].includes((await pids())[0]));
    await ready();
    const dictionaries = await box.sh('lineside dict list --json');
    assert.deepEqual([dictionaries.includes('valves'), dictionaries.includes('hoses')], [true, false]);
    assert.equal(await box.sh('cat /etc/lineside/secrets/hub/restored'), 'of-now');
    assert.equal(
      await box.sh('sha256sum /etc/lineside/tokens.json && stat --format="%a %U:%G" /etc/lineside/tokens.json'),
      tokens,
    );
    assert.match(await box.sh('lineside status'), /open \/dev\/ttyFIELD/);
    assert.equal(await box.sh('ls /var/lib/lineside-admin'), 'audit.jsonl');
    assert.equal(await box.sh('ls -A /etc/lineside /var/lib/lineside-hub | grep restore || true'), '');

    // Killed when the service is stopped: the rest of the renames, and the service, are the unit's to bring back.
    const unit = 'lineside-admin-restore.service';
    assert.match(await ask('PUT', 'restore/backup', '@/root/box.backup'), /^200/);
    dropIn(
      box,
      unit,
      '[Service]\nExecStart=\nExecStart=/bin/sh -c "systemctl stop lineside lineside-hub; sleep 60"\n',
      'slow',
    );
    await box.sh('systemctl daemon-reload');
    assert.match(await begin(name), /^204/);
    await until('the service to be stopped', async () => (await states())[0] === 'inactive');
    await box.sh(`systemctl kill --kill-whom=main --signal=KILL ${unit}`);
    await ready();
    assert.equal(await box.sh('ls /var/lib/lineside-admin'), 'audit.jsonl');
    await box.sh(`rm /run/systemd/system/${unit}.d/slow.conf && systemctl daemon-reload`);
  });

  test('a process that hangs is killed by its watchdog and started again', async () => {
    // A stopped process does not die of the first signal; systemd waits this long for that.
    dropIn(box, 'lineside.service', '[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\n', 'hurry');
    await box.sh('systemctl daemon-reload && systemctl restart lineside');
    await ready();
    const line = await property('lineside', 'MainPID');
    await box.sh(`kill -STOP ${line}`);
    await box.until('another process', `[ "$(systemctl show --value --property=MainPID lineside)" != ${line} ]`);
    await ready();
    assert.match(await box.sh('journalctl --unit=lineside --grep="[Ww]atchdog timeout"'), /atchdog timeout/);
  });

  test('with a certificate the LAN is served by TLS and token, beside the loopback address on the same port', async () => {
    await box.sh('lineside identity create && ip address add 10.9.8.7/32 dev lo');
    await box.sh('lineside token add tech --role operator --role reader | tail -n 1 >/root/token');
    await box.sh('systemctl restart lineside');
    await ready();
    assert.deepEqual(await listening(), ['*:50051', '*:8443', ...LOCAL]);
    const lan = (rest: string) =>
      `lineside ${rest} --ca /etc/lineside/tls/ca.crt --server-name localhost --token-file /root/token`;
    assert.match(await box.sh(lan('status --host 10.9.8.7')), /open \/dev\/ttyFIELD/);
    assert.match(await box.sh(lan('dict list --host 10.9.8.7:8443')), /pumps/);
    // Neither TLS nor a token.
    assert.match(await box.sh('lineside status --host 127.0.0.1'), /open \/dev\/ttyFIELD/);
    writeFileSync(box.path('/root/wrong'), 'x'.repeat(43));
    const refused = await box.run(['sh', '-c', lan('status --host 10.9.8.7').replace('/root/token', '/root/wrong')]);
    assert.notEqual(refused.status, 0);
    assert.match(refused.stderr, /token|credential|UNAUTHENTICATED/i);
  });
});
