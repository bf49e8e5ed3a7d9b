/** lineside doctor in other circumstances: a collector, a user who is not root, name servers that say nothing. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { environment, MAIN, NODE, startProcess, temporaryDirectory, writeConfig } from './daemon.ts';
import { remember, startCli } from './run-cli.ts';

/** The doctor's own limit is 50 s. */
const LIMIT_MS = 60_000;

interface Outcome {
  readonly status: number;
  readonly said: (check: string) => string;
  readonly state: (check: string) => string;
  readonly stdout: string;
}

/** `before`: a command that runs the doctor. */
async function doctor(configFile: string, before: readonly string[] = []): Promise<Outcome> {
  const words = [...before, NODE, MAIN, 'doctor', '--json', '--config', configFile];
  const child = startProcess(words[0] ?? NODE, words.slice(1), environment());
  const complaint = remember(child.stderr);
  if (child.stdout === null) throw new Error('no pipe');
  const [stdout, [status]] = await within(
    'the doctor',
    Promise.all([text(child.stdout), once(child, 'close') as Promise<[number]>]),
    LIMIT_MS,
  );
  const { checks } = JSON.parse(stdout || `{"checks":${JSON.stringify(complaint())}}`) as {
    checks: { name: string; state: string; findings: { state: string; found: string }[] }[];
  };
  const one = (name: string) => checks.find((check) => check.name === name);
  return {
    status,
    stdout,
    state: (name) => one(name)?.state ?? '',
    said: (name) => (one(name)?.findings ?? []).map(({ state, found }) => `${state}: ${found}`).join('\n'),
  };
}

describe('the way of the serial log to a collector', () => {
  it('is tried with its token: well, refused, and not there', async () => {
    const dir = temporaryDirectory();
    const [good, bad] = ['col_good-token-4730', 'col_bad-token-4731'];
    writeFileSync(join(dir, 'tokens'), `box-1 ${createHash('sha256').update(good).digest('hex')}\n`, { mode: 0o600 });
    const args = ['--listen', '127.0.0.1:0', '--dir', join(dir, 'logs'), '--tokens', join(dir, 'tokens')];
    const collector = startCli(['collector', 'serve', ...args]);
    const ready = await until('the collector', () =>
      /collector ready listen=\S*?127\.0\.0\.1:(\d+)/.exec(collector.stderr()),
    );
    const tokenFile = join(dir, 'token');
    const upstream = { to: 'collector', collector: `127.0.0.1:${ready[1] ?? ''}`, collector_token_file: tokenFile };
    const file = writeConfig(dir, { device: { id: 'box-1' }, upstream });
    const rows: readonly (readonly [string, RegExp])[] = [
      [good, /ok: the collector answers, and takes the token/],
      [bad, /failed: the collector refuses the token/],
      ['two words', /failed: the file of upstream\.collector_token_file holds no token/],
    ];
    for (const [token, says] of rows) {
      writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
      const { said, stdout } = await doctor(file);
      assert.match(said('upstream'), says);
      assert.match(said('network'), /ok: upstream\.collector: 127\.0\.0\.1 needs no DNS/);
      assert.ok(!stdout.includes(token));
    }
    await collector.end('SIGTERM');
    assert.match((await doctor(file)).said('upstream'), /failed: \S+: nothing listens there/);
  });
});

describe('sockets that a killed service left behind', () => {
  it('are told from a service that answers', async () => {
    const dir = temporaryDirectory();
    mkdirSync(join(dir, 'run'));
    for (const name of ['grpc.sock', 'http.sock']) {
      const die = "() => process.kill(process.pid, 'SIGKILL')";
      spawnSync(NODE, [
        '-e',
        `require('net').createServer().listen(${JSON.stringify(join(dir, 'run', name))}, ${die})`,
      ]);
    }
    const { said } = await doctor(writeConfig(dir));
    assert.match(said('service'), /failed: the line does not run[\s\S]*failed: the hub does not run/);
  });
});

describe('a user who is not root', () => {
  const drop = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const cannot =
    spawnSync(drop[0] ?? '', [...drop.slice(1), NODE, '-e', `require('fs').readFileSync(${JSON.stringify(MAIN)})`])
      .status !== 0;

  it('is told what only root may see, and that is no failure', {
    skip: cannot && 'this user may not read the build',
  }, async () => {
    const dir = temporaryDirectory();
    chmodSync(dir, 0o755);
    mkdirSync(join(dir, 'data'), { mode: 0o700 });
    writeFileSync(join(dir, 'data/log.db'), 'x');
    writeFileSync(join(dir, 'tokens.json'), '{"tokens":[]}', { mode: 0o600 });
    const file = writeConfig(dir);
    chmodSync(file, 0o644);
    const { said, state } = await doctor(file, drop);
    for (const check of ['disk', 'databases', 'tokens']) {
      assert.equal(state(check), 'skipped', said(check));
      assert.match(said(check), /cannot be seen by this user/);
    }
    chmodSync(file, 0o600);
    assert.match((await doctor(file, drop)).said('configuration'), /^skipped: .* cannot be read by this user$/);
  });
});

describe('name servers that say nothing', () => {
  const made = spawnSync('unshare', ['-mn', 'ip', 'link', 'set', 'lo', 'up']).status !== 0;

  it('hold nobody up: the name is told, and the rest is looked at', {
    skip: made && 'no namespaces can be made here',
  }, async () => {
    const dir = temporaryDirectory();
    const script = join(dir, 'silent.mjs');
    writeFileSync(
      script,
      `import { createSocket } from 'node:dgram';\ncreateSocket('udp4').bind(53, '127.0.0.1', () => console.error('bound'));\n`,
    );
    writeFileSync(join(dir, 'resolv.conf'), 'nameserver 127.0.0.1\noptions timeout:30 attempts:5\n');
    writeFileSync(join(dir, 'nsswitch.conf'), 'hosts: files dns\n');
    const inside = `ip link set lo up; for one in resolv.conf nsswitch.conf; do mount --bind "$DIR/$one" "/etc/$one"; done
mkfifo "$DIR/bound"; "$NODE" "$DIR/silent.mjs" 2>"$DIR/bound" </dev/null >/dev/null & server=$!
read -r bound <"$DIR/bound"; "$@"; status=$?; kill "$server"; exit "$status"`;
    const file = writeConfig(dir, { kafka: { bootstrap: 'broker.example:9092' } });
    const wrapper = ['env', `DIR=${dir}`, `NODE=${NODE}`, 'unshare', '-mn', 'sh', '-c', inside, 'sh'];
    const { said, status } = await doctor(file, wrapper);
    assert.equal(status, 1);
    assert.match(said('network'), /failed: DNS does not answer about broker\.example \(kafka\.bootstrap\) within 6 s/);
    assert.match(said('broker'), /skipped: broker\.example:9092: its name cannot be resolved/);
    assert.match(said('configuration'), /^ok: /);
    assert.equal(dirname(file), dir);
  });
});
