/** lineside doctor as people run it: the built product, a real service, and real trouble with it, its servers or its user. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker, users } from '../kafka/broker.ts';
import { MAIN, NODE, signalPid, type Toml, temporaryDirectory, writeConfig } from './daemon.ts';
import { openPort, RX } from './faults.ts';
import { isAlive, startBoth } from './hub.ts';
import { passwordFile, plainKafka, saslKafka } from './hub-support.ts';
import { namedPty } from './pty.ts';
import { type CliOutcome, runCli, startCli } from './run-cli.ts';

interface Finding {
  readonly state: string;
  readonly found: string;
  readonly todo: string;
}

interface Doctor {
  readonly outcome: CliOutcome;
  /** Of a check, "state: found -> todo" in lines. */
  readonly said: (check: string) => string;
  readonly state: (check: string) => string;
}

/** `before`: a command that runs the doctor. */
async function doctor(configFile: string, before: readonly string[] = []): Promise<Doctor> {
  const outcome = await runCli(['doctor', '--json', '--config', configFile], { before });
  const { checks } = JSON.parse(outcome.stdout) as {
    checks: { name: string; state: string; findings: Finding[] }[];
  };
  const one = (name: string) => {
    const found = checks.find((check) => check.name === name);
    assert.ok(found, `no check ${name}: ${outcome.stdout}`);
    return found;
  };
  const failing = checks.some(({ state }) => state === 'failed');
  assert.equal(outcome.status, failing ? 1 : 0, outcome.stdout);
  return {
    outcome,
    state: (name) => one(name).state,
    said: (name) =>
      one(name)
        .findings.map(({ state, found, todo }) => `${state}: ${found} -> ${todo}`)
        .join('\n'),
  };
}

/** Every file with its size, times and content. */
function treeOf(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const path = join(dir, name);
      const { size, mtimeMs, ctimeMs, mode } = lstatSync(path);
      const content = lstatSync(path).isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : '';
      return `${name} ${mode} ${size} ${mtimeMs} ${ctimeMs} ${content}`;
    });
}

/** A configuration without a service. */
function configured(config: Toml): { dir: string; file: string } {
  const dir = temporaryDirectory();
  mkdirSync(join(dir, 'data'));
  return { dir, file: writeConfig(dir, config) };
}

describe('a service that is well', () => {
  it('has every check pass, also of the port that it holds; status 0', async () => {
    const dir = temporaryDirectory();
    const pty = namedPty(dir);
    const service = await startBoth({
      dir,
      config: { serial: { extra_ports: [pty.portName] }, log: { max_bytes: 1048576 }, outbox: { max_bytes: 1048576 } },
    });
    await openPort(service.client, pty.portName);
    const { outcome, said, state } = await doctor(service.configFile);
    assert.equal(outcome.status, 0, outcome.stdout);
    assert.equal(outcome.stderr, '');
    for (const check of ['configuration', 'service', 'rights', 'clock', 'disk', 'databases', 'tokens'])
      assert.equal(state(check), 'ok', said(check));
    assert.match(said('service'), /the line answers, version \S+[\s\S]*the hub answers, version/);
    // The other end of a PTY is this test's.
    assert.match(said('uart'), new RegExp(`${pty.portName} is open in lineside \\(process ${service.linePid}\\)`));
    assert.match(said('uart'), new RegExp(`held open by \\S+ \\(process ${process.pid}\\)`));
    assert.match(said('databases'), /ok: log\.db: .*readable[\s\S]*ok: refdata\.db: .*readable/);
    const text = await runCli(['doctor', '--config', service.configFile]);
    assert.equal(text.status, 0);
    assert.match(text.stdout, /^ok {7}configuration {2,}/);
    assert.match(text.stdout, /18 checks; nothing failed/);
    await service.stop();
  });
});

describe('a service whose address another program has', () => {
  for (const [section, who] of [
    ['grpc', 'line'],
    ['http', 'hub'],
  ] as const) {
    it(`has a failure for it, although connections are accepted there: of the ${who}`, async (t) => {
      const other = createServer().listen(0, '127.0.0.1');
      t.after(() => other.close());
      await once(other, 'listening');
      const address = `127.0.0.1:${(other.address() as AddressInfo).port}`;
      const service = await startBoth({ config: { [section]: { listen: [address, `unix:${section}.sock`] } } });
      const { said, state } = await doctor(service.configFile);
      assert.equal(state('listeners'), 'failed', said('listeners'));
      assert.match(said('listeners'), new RegExp(`^failed: the ${who}: NOT LISTENING on ${address} `));
      assert.equal(await service.stop(), 0);
    });
  }
});

describe('a service that was killed', () => {
  it('is left as it is: no file is made, changed or touched, and its databases are said to be sound', async () => {
    const service = await startBoth();
    await service.http('POST', '/api/v1/dictionaries', { name: 'a', title: 'a', scope: 'PUBLIC' });
    const hubPid = service.pid();
    for (const pid of [service.linePid, hubPid]) signalPid(pid, 'SIGKILL');
    await until('both are gone', () => !isAlive(service.linePid) && !isAlive(hubPid));
    const before = treeOf(service.dir);
    assert.ok(
      before.some((line) => line.includes('refdata.db-wal')),
      before.join('\n'),
    );
    const { said } = await doctor(service.configFile);
    assert.deepEqual(treeOf(service.dir), before);
    assert.match(said('databases'), /ok: log\.db: .*\n?.*ok: refdata\.db: .* taken in at the next start/);
    // The sockets are still there.
    assert.match(said('service'), /failed: the line does not run[\s\S]*failed: the hub does not run/);
  });
});

it('a disk that is full under the log: that nothing is stored is a failure and an alert', async (t) => {
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  if (!mountSmall(t, data, 'size=4m')) return;
  const both = await startBoth({ dir, config: { serial: { simulate: true } } });
  fill(join(data, 'filler'));
  await until('an entry is not stored', () =>
    both.client.serial.logRaw({ dir: RX, rawData: Buffer.from('x') }).then(
      () => false,
      () => true,
    ),
  );
  const { said, state } = await doctor(both.configFile);
  assert.equal(state('service'), 'failed');
  assert.match(said('service'), /failed: the log is not being stored: /);
  assert.match(said('disk'), /changes are refused[\s\S]*data is full/);
  const fires = async (): Promise<boolean> =>
    JSON.stringify((await both.http('GET', '/api/v1/alerts')).body).includes('LineLogFailing');
  await until('the alert fires', fires, 60_000);
  assert.equal(await both.stop(), 0);
});

describe('the way to the broker', { skip: brokerMissing }, () => {
  let started: Promise<TestBroker> | undefined;
  const broker = (): Promise<TestBroker> => (started ??= startBroker());
  const topics = (prefix: string): string[] =>
    ['public', 'internal', 'restricted'].map((scope) => `${prefix}.${scope}`);

  it('is well: plain, and with a login over TLS', async () => {
    const kafka = await broker();
    for (const name of topics('refdata.cuod.events')) await kafka.admin.createTopic(name, 3);
    const plain = await doctor(configured(plainKafka(kafka, 'refdata.cuod.events')).file);
    assert.match(
      plain.said('broker'),
      /ok: the broker answers[\s\S]*topic refdata\.cuod\.events\.restricted: 3 partitions/,
    );
    const { dir } = configured({});
    const secure = await doctor(writeConfig(dir, saslKafka(kafka, dir, 'refdata.cuod.events')));
    assert.match(secure.said('broker'), /: TLS[,;] [\s\S]*ok: login accepted/);
    assert.notEqual(secure.state('broker'), 'failed', secure.said('broker'));
  });

  it('is named where it breaks: password, authority, expiry, protocol, topics', async () => {
    const kafka = await broker();
    const { dir } = configured({});
    const secure = (more: Toml): Toml => saslKafka(kafka, dir, 'refdata.cuod.events', more);
    const wrong = 'Wrong-pass-word-4711';
    const rows: readonly (readonly [Toml, RegExp])[] = [
      [
        secure({ ca_file: kafka.strangerCaFile }),
        /failed: .*certificate is not from an authority that kafka\.ca_file names/,
      ],
      [secure({ bootstrap: kafka.expired }), /failed: .*the broker's certificate has expired/],
      [secure({ bootstrap: kafka.plain }), /failed: .*does not speak TLS on this port/],
      [{ kafka: { bootstrap: kafka.sasl } }, /failed: \S+ speaks TLS, and kafka\.security_protocol is "plaintext"/],
      [
        { kafka: { bootstrap: kafka.sasl, security_protocol: 'ssl', ca_file: kafka.caFile } },
        /failed: the broker speaks TLS and hangs up at the first word: it seems to want a login/,
      ],
      [secure({ bootstrap: '127.0.0.1:1' }), /failed: 127\.0\.0\.1:1: nothing listens there/],
      [
        secure({
          username: users.nobody.name,
          password_file: passwordFile(temporaryDirectory(), users.nobody.password),
        }),
        /failed: topic \S+ this user is not authorised|failed: .*lacks the ACL/,
      ],
      [plainKafka(kafka, 'absent.prefix', { create_topics: false }), /failed: topic absent\.prefix\.public is missing/],
      [secure({ password_file: passwordFile(temporaryDirectory(), wrong) }), /failed: .*refuses user name or password/],
    ];
    const judge = async ([config, says]: (typeof rows)[number]): Promise<void> => {
      const { said, outcome } = await doctor(configured(config).file);
      assert.match(said('broker'), says);
      for (const secret of [wrong, users.device.password]) assert.ok(!outcome.stdout.includes(secret));
    };
    // Each waits for the network more than it works.
    await Promise.all(rows.map(judge));
  });
});

describe('a server that does not answer', () => {
  const servers: { server: Server; sockets: Set<Socket> }[] = [];
  after(() => {
    for (const { server, sockets } of servers) {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });

  const silent = (listen: string | number): Promise<number> =>
    new Promise((resolve) => {
      const sockets = new Set<Socket>();
      const server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
      servers.push({ server, sockets });
      const done = (): void => {
        const address = server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : 0);
      };
      if (typeof listen === 'string') server.listen(listen, done);
      else server.listen(listen, '127.0.0.1', done);
    });

  it('does not block the doctor in place of the broker, the line or the hub, and is reported', async () => {
    const port = await silent(0);
    const dir = temporaryDirectory();
    mkdirSync(join(dir, 'run'));
    await silent(join(dir, 'run/grpc.sock'));
    await silent(join(dir, 'run/http.sock'));
    const file = writeConfig(dir, { kafka: { bootstrap: `127.0.0.1:${port}`, security_protocol: 'ssl' } });
    const { said } = await doctor(file);
    assert.match(said('broker'), /takes the connection and does not answer TLS within 5 s/);
    assert.match(
      said('service'),
      /the line takes a connection and does not answer[\s\S]*the hub takes a connection and does not answer/,
    );
  });
});

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
      const { said, outcome } = await doctor(file);
      assert.match(said('upstream'), says);
      assert.match(said('network'), /ok: upstream\.collector: 127\.0\.0\.1 needs no DNS/);
      assert.ok(!outcome.stdout.includes(token));
    }
    await collector.end('SIGTERM');
    assert.match((await doctor(file)).said('upstream'), /failed: \S+: nothing listens there/);
  });
});

describe('a user who is not root', () => {
  const drop = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'];
  const cannot =
    spawnSync(drop[0] ?? '', [...drop.slice(1), NODE, '-e', `require('fs').readFileSync(${JSON.stringify(MAIN)})`])
      .status !== 0;

  it('is notified of what only root may see, which is no failure', {
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
    assert.match((await doctor(file, drop)).said('configuration'), /^skipped: .* cannot be read by this user/);
  });
});

describe('name servers that do not answer', () => {
  const made = spawnSync('unshare', ['-mn', 'ip', 'link', 'set', 'lo', 'up']).status !== 0;

  it('do not block the doctor: the name is reported, and the other checks run', {
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
    const { said, state } = await doctor(file, wrapper);
    assert.equal(state('network'), 'failed');
    assert.match(said('network'), /failed: DNS does not answer about broker\.example \(kafka\.bootstrap\) within 6 s/);
    assert.match(said('broker'), /skipped: broker\.example:9092: its name cannot be resolved/);
    assert.match(said('configuration'), /^ok: /);
  });
});
