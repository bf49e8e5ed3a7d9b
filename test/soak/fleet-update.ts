/**
 * `lineside fleet run` over a fleet of real boxes: so many containers with the package and three boxes of the image on emulated hardware.
 * One more box is gone, one shows another certificate. The update has no room on one box, which is done once it has some.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '../../src/shared/auth/tokens.ts';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { bootBox } from '../appliance/box.ts';
import type { Container } from '../appliance/nspawn.ts';
import { run } from '../e2e/island.ts';
import { runCli, startCli } from '../e2e/run-cli.ts';
import { freePort } from '../free-port.ts';
import { QemuBox } from '../image/box.ts';
import { writeNextBundle } from '../image/bundles.ts';
import { readFromCard, writeCard } from '../image/card.ts';

type Say = (line: string) => void;

/** The second has no room for the update at first. */
const EMULATED = ['image-1', 'image-2', 'image-3'] as const;
const FULL = 'image-2';
/** Upload, install, restart and trial of three boxes, on two cores that emulate all of them. */
const UPDATE_LIMIT_MS = 3_600_000;
const ALL_LIMIT_MS = 300_000;
/** Without an answer: emulated boxes share the processors with each other. */
const SILENT_S = '300';
/** Of one user, so of root in all containers: the 128 of the kernel are enough for 13 machines with systemd. */
const INOTIFY = '/proc/sys/fs/inotify/max_user_instances';
const INOTIFY_INSTANCES = 1_024;
/** A bundle is refused where less than twice its size is free. */
const FREE_MIB = 100;

type Ports = Readonly<Record<'grpc' | 'http', number>>;
const PACKAGE_PORTS: Ports = { grpc: 50_051, http: 8443 };

interface Outcome {
  readonly status: number;
  readonly took: string;
  readonly stdout: string;
  readonly stderr: string;
}

interface Report {
  readonly boxes: Readonly<Record<string, { readonly state: string; readonly error: string }>>;
}

export async function fleetUpdate(dir: string, daemons: number, say: Say): Promise<void> {
  const at = (name: string): string => join(dir, name);
  const env = { XDG_CONFIG_HOME: dir, HOME: dir };
  const cli = async (limitMs: number, ...words: string[]): Promise<Outcome> => {
    const from = performance.now();
    const running = startCli(words, env);
    const [status] = (await within(`lineside ${words.join(' ')}`, once(running.process, 'close'), limitMs)) as [number];
    const took = `${((performance.now() - from) / 1000).toFixed(0)} s`;
    const [stdout, stderr] = [running.stdout(), running.stderr()];
    say(`lineside ${words.join(' ')}: status ${status} after ${took}\n${stdout}${stderr}`);
    return { status, took, stdout, stderr };
  };
  const profile = async (name: string, to: Ports, ca: string, token: string, tag: string, host = '127.0.0.1') => {
    writeFileSync(at(`${name}.token`), token, { mode: 0o600 });
    const where = ['--host', `${host}:${to.grpc}`, '--http-port', `${to.http}`, '--server-name', 'localhost'];
    const words = [...where, '--ca', ca, '--token-file', at(`${name}.token`), '--tags', tag];
    const { status, stderr } = await runCli(['profile', 'add', name, ...words], { env });
    assert.equal(status, 0, stderr);
  };

  const containers: Container[] = [];
  const before = readFileSync(INOTIFY, 'utf8');
  writeFileSync(INOTIFY, `${INOTIFY_INSTANCES}`);
  const boxes: QemuBox[] = [];
  const lives: Promise<void>[] = [];
  try {
    for (let n = 1; n <= daemons; n++) {
      const name = `daemon-${String(n).padStart(2, '0')}`;
      const box = await bootBox();
      containers.push(box);
      const address = plugCable(box, n);
      await box.sh('lineside identity create && systemctl restart lineside');
      await box.until('both processes ready', 'systemctl is-active lineside lineside-hub');
      const added = await box.sh('lineside token add centre --role admin --role operator --role reader');
      writeFileSync(at(`${name}.ca`), await box.sh('cat /etc/lineside/tls/ca.crt'));
      await profile(name, PACKAGE_PORTS, at(`${name}.ca`), added.split('\n').at(-1) ?? '', 'kind=daemon', address);
    }
    say(`${daemons} containers are ready`);
    const next = writeNextBundle(dir);
    for (const name of EMULATED) {
      const card = at(`${name}.img`);
      const token = newToken();
      const box = await QemuBox.create({ dir: at(name), card });
      const admin = `[[token]]\nname = "centre"\nroles = ["admin", "operator", "reader"]\ntoken = "${token}"\n`;
      writeCard(card, { 'setup.toml': `[box]\nhostname = "${name}"\n[ssh]\nkeys = ["${box.publicKey}"]\n${admin}` });
      boxes.push(box);
      await box.start();
      await box.ready();
      writeFileSync(at(`${name}.ca`), await box.ssh('cat /etc/lineside/tls/ca.crt'), { mode: 0o600 });
      await profile(name, box.ports, at(`${name}.ca`), token, 'kind=image');
      say(`${name} is ready`);
      lives.push(startedAgain(box));
    }
    const [first, full] = boxes as [QemuBox, QemuBox];
    await profile('gone', { grpc: 1, http: await freePort() }, at('image-1.ca'), newToken(), 'kind=lost');
    await profile('other', first.ports, at('image-2.ca'), newToken(), 'kind=lost');

    const all = await cli(ALL_LIMIT_MS, 'fleet', 'run', '--all', '--stop-after', '3', '--', 'outbox');
    assert.equal(all.status, 1);
    assert.match(all.stderr, new RegExp(`${daemons + EMULATED.length} done, 2 failed, 0 not begun\n$`));
    assert.match(all.stdout, /^gone +failed .*connection refused/m);
    assert.match(all.stdout, /^other +failed .*its certificate is not trusted/m);

    await full.ssh(`fallocate -l $(($(df --output=avail -BM /data | tail -1 | tr -dc 0-9) - ${FREE_MIB}))M /data/full`);
    const report = at('update.json');
    const install = ['--', 'update', 'install', next, '--restart', '--timeout', SILENT_S];
    const over = (...more: string[]): Promise<Outcome> =>
      cli(UPDATE_LIMIT_MS, 'fleet', 'run', '--tag', 'kind=image', '--report', report, ...more, ...install);
    const states = (): Record<string, string> =>
      Object.fromEntries(
        Object.entries((JSON.parse(readFileSync(report, 'utf8')) as Report).boxes).map(([name, { state }]) => [
          name,
          state,
        ]),
      );
    // The canary alone, then the others side by side.
    const update = await over('--stop-after', '2');
    assert.equal(update.status, 1);
    assert.deepEqual(states(), { 'image-1': 'done', 'image-2': 'failed', 'image-3': 'done' });
    assert.match(update.stdout, new RegExp(`^${FULL} +failed .*(space|free|room)`, 'm'));
    await full.ssh('rm /data/full');
    const resumed = await over('--resume');
    assert.equal(resumed.status, 0, resumed.stderr);
    assert.deepEqual(Object.values(states()), ['done', 'done', 'done']);
    for (const { card } of boxes)
      assert.match(readFromCard(card, 'slot.txt').toString('latin1'), /good=b try=- left=0\nos_prefix=b\//);
    say(`update of three boxes: ${update.took}, and ${resumed.took} for the one that had no room`);
  } finally {
    for (const box of boxes) await box.kill();
    await Promise.allSettled(lives);
    for (const container of containers) await container.stop();
    writeFileSync(INOTIFY, before);
  }
}

/** From this machine to the container, whose address it gives. The kernel removes both ends with the container. */
function plugCable({ pid }: Container, number: number): string {
  // 198.18.0.0/15 is for tests of network devices (RFC 2544): it has no owner.
  const [here, there] = [`198.18.${number}.1`, `198.18.${number}.2`];
  const inside = ['nsenter', '-t', `${pid}`, '-n', 'ip'];
  const failed = run([
    ['ip', 'link', 'add', `lsfleet${number}`, 'type', 'veth', 'peer', 'name', 'lan', 'netns', `${pid}`],
    ['ip', 'addr', 'add', `${here}/30`, 'dev', `lsfleet${number}`],
    ['ip', 'link', 'set', `lsfleet${number}`, 'up'],
    [...inside, 'addr', 'add', `${there}/30`, 'dev', 'lan'],
    [...inside, 'link', 'set', 'lan', 'up'],
  ]);
  assert.equal(failed, '');
  return there;
}

/** As a board does: after a reset it starts again, until its plug is pulled. */
async function startedAgain(box: QemuBox): Promise<void> {
  while ((await box.ended(UPDATE_LIMIT_MS)) === 'reset') await box.start();
}
