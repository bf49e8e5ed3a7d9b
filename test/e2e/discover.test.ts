/** `lineside discover` on a LAN of its own: Avahi announces the box by the package's record, and others talk nonsense. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { before, describe, test } from 'node:test';
import { avahiService } from '../../src/appliance/identity/identity.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, startProcess, temporaryDirectory } from './daemon.ts';
import { makeIsland, run } from './island.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

/** Two machines, and none of this one's networks: discover asks all that it sees. */
const [box, laptop] = [makeIsland(), makeIsland()];
const avahi = spawnSync('avahi-daemon', ['--version']).status === 0 ? '' : 'avahi-daemon is not installed';
const none = [box, laptop].find((island) => typeof island === 'string');
const skip = typeof none === 'string' ? `no network of its own here: ${none}` : avahi === '' ? false : avahi;
const inBox = typeof box === 'string' ? [] : box.wrapper;
const inLaptop = typeof laptop === 'string' ? [] : laptop.wrapper;

const boxAddress = '198.18.77.1';
const fingerprint = 'AB:'.repeat(31).concat('CD');

function start(where: readonly string[], ...command: string[]) {
  const [program = '', ...args] = [...where, ...command];
  const child = startProcess(program, args, environment());
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    if (stream !== null) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  return { child, lines };
}

const discover = (where: readonly string[], ...args: string[]): Promise<CliOutcome> =>
  runCli(['discover', ...args], { before: where });

describe('lineside discover', { skip }, () => {
  const dir = temporaryDirectory();
  const named = `box-${process.pid}`;

  before(async () => {
    const [boxName = '', laptopName = ''] = [inBox.at(-1), inLaptop.at(-1)];
    const [one, other] = [`ld${process.pid}a`.slice(-15), `ld${process.pid}b`.slice(-15)];
    const steps = [
      ['ip', 'link', 'add', one, 'netns', boxName, 'type', 'veth', 'peer', 'name', other, 'netns', laptopName],
    ];
    for (const [name, link, address] of [
      [boxName, one, `${boxAddress}/24`],
      [laptopName, other, '198.18.77.2/24'],
    ] as const) {
      steps.push(
        ['ip', '-n', name, 'addr', 'add', address, 'dev', link],
        ['ip', '-n', name, 'link', 'set', link, 'up'],
      );
    }
    assert.equal(run(steps), '');
    // Avahi's places are fixed: a mount namespace of its own (ip netns exec makes one) has others there.
    writeFileSync(join(dir, 'avahi.conf'), `[server]\nhost-name=${named}\nuse-ipv6=no\nenable-dbus=no\n`);
    // A box of another make may say its version, too.
    const version = '    <txt-record>version=0.1.0</txt-record>\n';
    const record = avahiService({ deviceId: 'gate-7', caFingerprint: fingerprint }).replace(
      /(?= +<txt-record>fp=)/,
      version,
    );
    writeFileSync(join(dir, 'lineside.service'), record);
    const script =
      'mkdir -p /run/avahi-daemon /etc/avahi/services; mount -t tmpfs tmpfs /run/avahi-daemon; mount --bind "$1" /etc/avahi/services; exec avahi-daemon --no-drop-root --no-chroot --no-rlimits -f "$1/avahi.conf"';
    const { lines } = start(inBox, 'sh', '-c', script, 'sh', dir);
    await until('Avahi to announce the box', () =>
      lines.some((line) => /Service ".*successfully established/.test(line)),
    );
  });

  test('finds the box with everything that it announces', async () => {
    const { stdout, status } = await discover(inLaptop, '--json', '--timeout', '2');
    assert.equal(status, 0);
    assert.deepEqual(JSON.parse(stdout), {
      boxes: [
        {
          name: named,
          host: `${named}.local`,
          addresses: [boxAddress],
          grpcPort: 50_051,
          httpPort: 8_443,
          deviceId: 'gate-7',
          version: '0.1.0',
          fingerprint,
        },
      ],
    });
  });

  test('finds it on the box itself too, beside Avahi on the same port', async () => {
    const { stdout, status } = await discover(inBox, '--timeout', '2');
    assert.equal(status, 0);
    assert.match(
      stdout,
      new RegExp(`^${named}\\n[^]*address +${boxAddress}\\n[^]*fingerprint \\(a hint\\) +${fingerprint}\\n$`),
    );
  });

  test('finds it among nonsense, which is bounded and drives no terminal', async () => {
    const hostile = resolve(import.meta.dirname, 'hostile_mdns.py');
    const { lines, child } = start(inLaptop, '/usr/bin/python3', hostile, '198.18.77.2');
    await until('the hostile responder', () => lines.includes('ready'));
    const shown = await discover(inLaptop, '--timeout', '3');
    assert.equal(shown.status, 0, shown.stderr);
    assert.doesNotMatch(shown.stdout, /[^\n\P{Cc}]/u);
    assert.match(shown.stdout, /^ghost-\d+$/m, 'the nonsense was heard');
    assert.ok(shown.stdout.length < 100_000, `${shown.stdout.length} characters`);
    assert.ok(shown.stdout.includes('\\x1b[2J'), 'an escape is shown, not sent');
    assert.ok(shown.stdout.includes(`${named}\n`), shown.stdout.slice(0, 2_000));
    child.kill('SIGKILL');
  });

  test('says so when none answers, and when there is no network', async () => {
    const alone = makeIsland();
    assert.ok(typeof alone !== 'string', 'a third machine');
    const off = await discover(alone.wrapper, '--timeout', '1');
    assert.deepEqual([off.status, /no network/.test(off.stderr)], [3, true], off.stderr);
    alone.plug();
    const silent = await discover(alone.wrapper, '--timeout', '1');
    assert.deepEqual([silent.status, /none answered within 1 s/.test(silent.stderr)], [5, true], silent.stderr);
  });
});
