/**
 * What a program that runs as the line or as the hub can and cannot do: a shell script in a unit with the very directives
 * of the installed one, and for comparison as the same user outside of it.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { type Box, bootBox, PORT } from './box.ts';
import { nspawnMissing } from './nspawn.ts';

const missing = nspawnMissing();
type Unit = 'lineside' | 'lineside-hub';

/** What the probe is not: the service itself, notifying, with sockets, its dependencies, its restarts. */
const OF_THE_SERVICE =
  /^(Type|NotifyAccess|ExecStart|ExecStop|ExecReload|Sockets|WatchdogSec|Restart\w*|Wants|StopWhenUnneeded|After|Propagates\w+|JobRunningTimeoutSec|StartLimit\w+|WantedBy)=/;

describe('the sandbox of the units', { skip: missing, timeout: 900_000 }, () => {
  let box: Box;
  before(async () => {
    box = await bootBox();
    // A device that any user may open where no device filter stands in the way: /dev/fuse under another name.
    execFileSync('mknod', ['--mode=666', box.path('/dev/probe'), 'c', '10', '229']);
    await box.sh('install -m 4755 /usr/bin/id /usr/bin/id-as-root');
    await box.sh(
      'install -m 600 /dev/null /etc/lineside/secrets/line/probe && install -m 600 /dev/null /etc/lineside/secrets/hub/probe',
    );
  });

  /** Runs a script in the unit's sandbox: its exit status and all it printed. */
  async function inside(unit: Unit, script: string): Promise<{ status: number; output: string }> {
    const directives = readFileSync(box.path(`/usr/lib/systemd/system/${unit}.service`), 'utf8')
      .split('\n')
      .filter((line) => !OF_THE_SERVICE.test(line));
    // Scripts can be read nowhere but where the package's files are.
    writeFileSync(box.path('/usr/lib/lineside/probe.sh'), script);
    const probe = [
      'Type=oneshot',
      'ExecStart=/bin/sh -e /usr/lib/lineside/probe.sh',
      'StandardOutput=file:/root/probe.out',
    ];
    const text = directives
      .join('\n')
      .replace('[Service]', ['[Service]', ...probe, 'StandardError=inherit'].join('\n'));
    writeFileSync(box.path('/run/systemd/system/probe.service'), text);
    await box.sh(': >/root/probe.out; systemctl daemon-reload; systemctl reset-failed probe 2>/dev/null || true');
    const ran = await box.run(['systemctl', 'start', 'probe']);
    return { status: ran.status, output: readFileSync(box.path('/root/probe.out'), 'utf8').trimEnd() };
  }

  /** The same user and groups without the sandbox. */
  async function outside(unit: Unit, script: string) {
    const groups = unit === 'lineside' ? 'lineside,dialout' : 'lineside-hub,lineside';
    const ran = await box.run([
      'setpriv',
      `--reuid=${unit}`,
      `--regid=${unit}`,
      `--groups=${groups}`,
      'sh',
      '-ec',
      script,
    ]);
    return { status: ran.status, output: (ran.stdout + ran.stderr).trimEnd() };
  }

  async function refused(unit: Unit, script: string, why: RegExp): Promise<void> {
    const ran = await inside(unit, script);
    assert.notEqual(ran.status, 0, `${unit} could: ${script}\n${ran.output}`);
    assert.match(ran.output, why, `${unit}: ${script}`);
  }

  for (const unit of ['lineside', 'lineside-hub'] as const) {
    const [own, other] = unit === 'lineside' ? (['line', 'hub'] as const) : (['hub', 'line'] as const);
    const [ownState, otherState] =
      unit === 'lineside'
        ? ['/var/lib/lineside', '/var/lib/lineside-hub']
        : ['/var/lib/lineside-hub', '/var/lib/lineside'];

    test(`${unit}: reads its configuration, and neither passwords nor the other's state nor keys`, async () => {
      assert.equal((await inside(unit, 'grep -c runtime_dir /etc/lineside/lineside.toml')).status, 0);
      await refused(unit, 'cat /etc/shadow', /denied/);
      await refused(unit, `ls ${otherState}`, /denied/);
      await refused(unit, `cat /etc/lineside/secrets/${own}/probe`, /denied/);
      assert.equal(
        (await inside(unit, 'cat "$CREDENTIALS_DIRECTORY/lineside_probe"')).status,
        0,
        'its own, as credential',
      );
      await refused(
        unit,
        'cat /run/credentials/' + (unit === 'lineside' ? 'lineside-hub' : 'lineside') + '.service/*',
        /denied|No such/,
      );
      assert.equal(await box.sh(`ls /etc/lineside/secrets/${other}`), 'probe');
    });

    test(`${unit}: the running process has no capability, gains none, and is filtered`, async () => {
      const status = await box.sh(`cat /proc/$(systemctl show --value --property=MainPID ${unit})/status`);
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.match(status, new RegExp(`^${set}:\\t0+$`, 'm'));
      assert.match(status, /^NoNewPrivs:\t1$/m);
      assert.match(status, /^Seccomp:\t2$/m);
      const user = await box.sh(`id -u ${unit}`);
      assert.equal((await outside(unit, 'id-as-root -u')).output, '0', 'outside the binary makes root of anyone');
      assert.equal((await inside(unit, 'id-as-root -u')).output, user);
      for (const kind of ['user', 'net', 'mount'])
        await refused(unit, `unshare --${kind} true`, /not permitted|denied/i);
    });

    test(`${unit}: writes into its state directory and nowhere else, and runs nothing from there`, async () => {
      assert.equal((await inside(unit, `: >${ownState}/probe && rm ${ownState}/probe`)).status, 0);
      for (const place of [
        '/etc',
        '/etc/lineside',
        '/usr/lib/lineside',
        '/var/lib',
        '/var/log',
        '/run',
        '/opt',
        '/dev',
        '/home',
      ])
        await refused(unit, `: >${place}/probe`, /Read-only|not permitted|denied|No such/);
      for (const place of [ownState, '/tmp', '/var/tmp'])
        await refused(unit, `cp /usr/bin/true ${place}/probe; trap 'rm ${place}/probe' EXIT; ${place}/probe`, /denied/);
    });

    test(`${unit}: sees no process but its own`, async () => {
      assert.equal((await outside(unit, 'test -d /proc/1')).status, 0);
      assert.equal((await inside(unit, 'test ! -d /proc/1')).status, 0);
    });

    test(`${unit}: opens no device that it was not given`, async (t) => {
      const free = await outside(unit, ': <>/dev/probe');
      if (free.status !== 0) return t.skip(`this kernel has no /dev/fuse to try it with: ${free.output}`);
      await refused(unit, ': <>/dev/probe', /not permitted|Read-only/);
    });
  }

  test('the line opens its port, and neither consoles nor memory as root has them', async () => {
    assert.equal((await inside('lineside', `: <>${PORT}`)).status, 0);
    for (const device of ['console', 'tty0', 'mem', 'kmsg']) {
      // A container has few devices: those it lacks are made, as root would find them.
      const numbers = { console: ['5', '1'], tty0: ['4', '0'], mem: ['1', '1'], kmsg: ['1', '11'] }[device] ?? [];
      const node = box.path(`/dev/probe-${device}`);
      execFileSync('mknod', ['--mode=620', node, 'c', ...numbers]);
      await refused('lineside', `: <>/dev/probe-${device}`, /not permitted|denied/);
    }
  });

  test('the hub has no terminal and no port', async () => {
    const devices = (await inside('lineside-hub', 'ls /dev')).output.split('\n');
    assert.ok(devices.includes('null') && devices.includes('urandom'), devices.join(' '));
    assert.deepEqual(
      devices.filter((name) => /^tty.+|^console$|FIELD|probe|^mem$/.test(name)),
      [],
    );
    await refused('lineside-hub', `: <>${PORT}`, /Read-only/);
  });

  test('the line has no network: no interface but its own loopback, no socket to call out by', async () => {
    const socket = (family: string) => `/usr/bin/python3 -c "import socket; socket.socket(socket.${family})"`;
    for (const family of ['AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_PACKET'])
      await refused('lineside', socket(family), /not supported|not permitted/);
    assert.equal((await inside('lineside', socket('AF_UNIX'))).status, 0);
    const network = (pid: string) => box.sh(`readlink /proc/${pid}/ns/net`);
    const line = await network(await box.sh('systemctl show --value --property=MainPID lineside'));
    const hub = await network(await box.sh('systemctl show --value --property=MainPID lineside-hub'));
    assert.ok(line !== hub && hub === (await network('1')), `${line} ${hub}`);
  });

  test('the hub has the network and the list of interfaces, and no raw sockets', async () => {
    const list = `/usr/lib/lineside/node -p "Object.keys(require('os').networkInterfaces()).join()"`;
    assert.match((await inside('lineside-hub', list)).output, /\blo\b/);
    await refused(
      'lineside-hub',
      `/usr/bin/python3 -c "import socket; socket.socket(socket.AF_PACKET)"`,
      /not supported|not permitted/,
    );
  });
});
