/** One command over many boxes, which are HTTP servers here: one fails, one is gone, one shows another certificate. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { makeCa, signed } from '../../shared/base/certificates.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { run, start, testFiles } from '../drive.fixture.ts';
import { type FleetPlan, runFleet } from './fleet-run.ts';

const files = testFiles();
const env = { XDG_CONFIG_HOME: files.dir, HOME: files.dir };
const servers: Server[] = [];
/** Of boxes that were asked, in order; and those that do not answer yet. */
let asked: string[] = [];
let failing = new Set<string>();
let held = new Map<string, () => void>();

async function answer(box: string, path: string, sent: ServerResponse): Promise<void> {
  if (path.endsWith('/admin/update/bundle'))
    return void sent.end(JSON.stringify({ version: '2', slot: 'b', builtAt: '2026-01-01T00:00:00Z', sha256: '' }));
  if (path.endsWith('/admin/work')) return void sent.writeHead(503).end();
  asked.push(box);
  if (held.has(box)) await new Promise<void>((resolve) => held.set(box, resolve));
  const state = failing.has(box) ? 'failed' : 'ok';
  const checks = [
    { name: 'disk', title: 'disk', state, tookMs: 1, findings: [{ state, found: 'the disk', todo: '' }] },
  ];
  sent.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ version: '1', state, checks }));
}

async function serve(box: string, server: Server, trust: readonly string[], tags?: string): Promise<void> {
  servers.push(server);
  server.on('request', ({ url = '' }, sent) => void answer(box, url, sent));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await addProfile(box, (server.address() as AddressInfo).port, trust, tags);
}

async function addProfile(box: string, port: number, trust: readonly string[], tags?: string): Promise<void> {
  const tagged = tags === undefined ? [] : ['--tags', tags];
  const words = ['profile', 'add', box, '--host', '127.0.0.1', '--http-port', String(port), ...trust, ...tagged];
  const { status, stderr } = await run(words, { env });
  assert.equal(status, 0, stderr);
}

before(async () => {
  for (const box of ['p1', 'p2', 'p3', 'p4'])
    await serve(box, createServer(), [], box < 'p3' ? 'line=3,hall=n' : 'line=4');
});
beforeEach(() => {
  asked = [];
  failing = new Set();
  held = new Map();
});
after(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

const fleet = (...words: string[]) => run(['fleet', 'run', ...words], { env });

describe('fleet run', () => {
  it('runs the command on the boxes that are named, and writes a line for each', async () => {
    const all = await fleet('--all', '--', 'doctor');
    assert.equal(all.status, 0);
    assert.deepEqual(
      all.stdout
        .replace(/ +\d.*?s +/g, ' ')
        .split('\n')
        .sort(),
      ['', ...['p1', 'p2', 'p3', 'p4'].map((box) => `${box}  done 1 checks; nothing failed`)],
    );
    assert.equal(all.stderr, '4 done, 0 failed, 0 not begun\n');
    const boxes = async (...words: string[]) => {
      asked = [];
      await fleet(...words, '--', 'doctor');
      return asked.sort();
    };
    assert.deepEqual(await boxes('--tag', 'line=3'), ['p1', 'p2']);
    assert.deepEqual(await boxes('--tag', 'line=3', '--tag', 'hall=s'), []);
    assert.deepEqual(await boxes('--boxes', files.file('list', 'p4 # the last\n\np2\np4\n')), ['p2', 'p4']);
  });

  it('refuses what is not for many boxes, before any is asked', async () => {
    for (const [words, why] of [
      [['--all', '--', 'restore', 'x', '--confirm', 'x'], /"restore" is not run over many boxes/],
      [['--all', '--', 'box', 'restore', 'x'], /"restore" is not run over many boxes/],
      [['--all', '--', 'factory-reset', '--yes'], /"factory-reset" is not run over many boxes/],
      [['--all', '--', 'doctor', '--profile', 'p1'], /names a box itself/],
      [['--all', '--', 'backup', 'all.backup'], /would write the same file/],
      [['--', 'doctor'], /which boxes is not said/],
      [['--all', '--tag', 'line=3', '--', 'doctor'], /which boxes is not said/],
      [['--boxes', files.file('wrong', 'p1\np9\n'), '--', 'doctor'], /no profile is called "p9"/],
      [['--all', '--resume', '--', 'doctor'], /no report to resume from/],
      [['--all', '--parallel', '65', '--', 'doctor'], /--parallel/],
    ] as const) {
      const { status, stderr } = await fleet(...words);
      assert.match(stderr, why);
      assert.notEqual(status, 0);
    }
    assert.deepEqual(asked, []);
  });

  it('gives the reason of a command that told its progress before it failed', async () => {
    const { stdout } = await fleet('--tag', 'line=4', '--', 'update', 'install', files.file('next.update', 'a bundle'));
    assert.match(stdout, /^p3 {2}failed {2}.* {2}lineside: cannot understand the answer/);
  });

  it('keeps a report, and resumes with the boxes that are not done', async () => {
    const report = files.at('report.json');
    failing.add('p2');
    const first = await fleet('--all', '--parallel', '1', '--report', report, '--', 'doctor');
    assert.equal(first.status, 1);
    assert.match(first.stderr, /1 done, 1 failed, 2 not begun\n$/);
    assert.match(first.stdout, /^p2  failed  \S+ \S+ +1 checks; failed: disk$/m);
    const read = () =>
      (JSON.parse(readFileSync(report, 'utf8')) as { boxes: Record<string, Record<string, unknown>> }).boxes;
    assert.deepEqual(
      Object.entries(read()).map(([box, { state, exitStatus }]) => [box, state, exitStatus]),
      [
        ['p1', 'done', 0],
        ['p2', 'failed', 1],
      ],
    );
    assert.equal(statSync(report).mode & 0o777, 0o600);
    assert.match((await fleet('--all', '--report', report, '--', 'doctor')).stderr, /it exists already/);
    assert.match(
      (await fleet('--all', '--report', report, '--resume', '--', 'status')).stderr,
      /the report of another command/,
    );
    [asked, failing] = [[], new Set()];
    const second = await fleet('--all', '--report', report, '--resume', '--', 'doctor');
    assert.deepEqual([second.status, asked.sort()], [0, ['p2', 'p3', 'p4']]);
    assert.deepEqual(
      Object.values(read()).map(({ state }) => state),
      ['done', 'done', 'done', 'done'],
    );
    rmSync(report);
  });

  it('names the box that is gone and the one whose certificate changed, and goes on with --stop-after', async () => {
    const gone = createServer().listen(0, '127.0.0.1');
    await once(gone, 'listening');
    await addProfile('p5', (gone.address() as AddressInfo).port, []);
    gone.close();
    makeCa(files.dir);
    const before = new X509Certificate(readFileSync(files.at('ca.pem'))).fingerprint256;
    makeCa(files.dir);
    signed(files.dir, 'box', 'IP:127.0.0.1');
    const [cert, ca, key] = ['box.pem', 'ca.pem', 'box.key'].map((name) => readFileSync(files.at(name)));
    const tls = createTlsServer({ cert: Buffer.concat([cert as Buffer, ca as Buffer]), key });
    await serve('p6', tls, ['--tls', '--fingerprint', before]);
    const { status, stdout } = await fleet('--all', '--stop-after', '5', '--json', '--', 'doctor');
    const boxes = stdout
      .trim()
      .split('\n')
      .map(
        (line) =>
          JSON.parse(line) as { box: string; state: string; error: { error?: { code: string; message: string } } },
      );
    assert.equal(status, 1);
    assert.equal(boxes.filter(({ state }) => state === 'done').length, 4);
    const failures = boxes.filter(({ state }) => state === 'failed').sort((a, b) => (a.box < b.box ? -1 : 1));
    assert.deepEqual(
      failures.map(({ box, error }) => [box, error.error?.code]),
      [
        ['p5', 'ECONNREFUSED'],
        ['p6', 'WRONG_FINGERPRINT'],
      ],
    );
    assert.ok(!asked.includes('p6'));
    for (const box of ['p5', 'p6']) await run(['profile', 'remove', box], { env });
  });

  it('begins no further box when its report cannot be written, and ends when nothing runs', async () => {
    const { status, stderr } = await fleet('--all', '--report', files.at('missing/report.json'), '--', 'doctor');
    assert.notEqual(status, 0);
    assert.match(stderr, /cannot write .*report\.json: there is no such file or directory/);
    assert.deepEqual(asked, ['p1']);
  });

  it('ends what runs, and begins no more, on Ctrl-C', async () => {
    held.set('p1', () => undefined);
    const report = files.at('stopped.json');
    const running = start(['fleet', 'run', '--all', '--report', report, '--', 'doctor'], { env });
    await until('the first box', () => asked.includes('p1'));
    running.signal('SIGINT');
    const { status } = await running.done;
    assert.deepEqual([status, asked], [130, ['p1']]);
    assert.match(readFileSync(report, 'utf8'), /"p1": \{\s+"state": "failed",\s+"exitStatus": 130/);
  });
});

describe('the order of a fleet', () => {
  const boxes = Array.from({ length: 12 }, (_, n) => `b${n}`);
  const plan: FleetPlan = { boxes, canaries: 1, waveSize: 4, parallel: 3, stopAfter: 2 };
  /** Answers the boxes that were begun; `bad` fail. Each takes a turn of the loop more than the one before. */
  async function begun(changes: Partial<FleetPlan>, bad: readonly string[], stop = new AbortController()) {
    const order: string[] = [];
    let most = 0;
    let now = 0;
    await runFleet({ ...plan, ...changes }, stop.signal, async (box) => {
      order.push(box);
      most = Math.max(most, (now += 1));
      for (let turn = 0; turn < order.length; turn++) await new Promise(setImmediate);
      now -= 1;
      if (box === 'b5') stop.signal.dispatchEvent(new Event('seen'));
      return !bad.includes(box);
    });
    assert.equal(now, 0);
    return { order, most };
  }

  it('is a canary, then waves, each begun when the one before has ended, so many at once', async () => {
    const { order, most } = await begun({}, []);
    assert.deepEqual([order, most], [boxes, 3]);
    assert.equal((await begun({ parallel: 64 }, [])).most, 4);
    assert.equal((await begun({ canaries: 0, parallel: 64, waveSize: 12 }, [])).most, 12);
  });

  it('ends with a canary that fails, and after so many failures', async () => {
    assert.deepEqual((await begun({}, ['b0'])).order, ['b0']);
    assert.deepEqual((await begun({ canaries: 2, parallel: 1 }, ['b0'])).order, ['b0']);
    assert.deepEqual((await begun({ parallel: 1 }, ['b1', 'b3'])).order, ['b0', 'b1', 'b2', 'b3']);
    assert.deepEqual((await begun({ parallel: 1 }, ['b1'])).order, boxes);
    assert.deepEqual((await begun({ canaries: 20 }, ['b11'])).order, boxes);
  });

  it('begins no box after it was stopped', async () => {
    const stop = new AbortController();
    stop.signal.addEventListener('seen', () => stop.abort());
    const { order } = await begun({ parallel: 1 }, [], stop);
    assert.deepEqual(order, boxes.slice(0, 6));
  });
});
