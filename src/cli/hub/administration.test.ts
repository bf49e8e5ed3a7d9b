/** The commands of administration, at a hub that answers what the test says. The real box: test/appliance/service.test.ts. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Clock, systemClock } from '../../shared/base/clock.ts';
import { run, testFiles } from '../drive.fixture.ts';

const files = testFiles();
const httpSocket = files.at('hub.sock');
const adminPath = '/api/v1/admin/';

type Take = (sent: ServerResponse, body: Buffer, asked: IncomingMessage) => unknown;
let routes: Record<string, Take> = {};
let server: Server;
let asked: string[] = [];

const json =
  (body: object, status = 200): Take =>
  (sent) =>
    sent.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const nothing: Take = (sent) => sent.writeHead(204).end();
/** One after the other; the last one stays. */
const inTurn = (...takes: Take[]): Take => {
  let at = 0;
  return (...call) => takes[Math.min(at++, takes.length - 1)]?.(...call);
};
const brokenOff: Take = (sent) => sent.destroy();

beforeEach(async () => {
  asked = [];
  routes = {};
  server = createServer((request, sent) => void answer(request, sent)).listen(httpSocket);
  await once(server, 'listening');
});
async function answer(request: IncomingMessage, sent: ServerResponse): Promise<void> {
  const call = `${request.method} ${request.url?.slice(adminPath.length)}`;
  asked.push(call);
  const body = await buffer(request);
  const take = routes[call];
  if (take === undefined) sent.writeHead(404).end();
  else take(sent, body, request);
}
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

/** A second takes a millisecond. */
const clock: Clock = {
  wallMs: () => systemClock.wallMs(),
  monoMs: () => performance.now() * 1_000,
  timer: (delayMs, call) => systemClock.timer(delayMs / 1_000, call),
};
const box = (...words: string[]) => run(['box', ...words], { httpSocket });
const hash = 'a'.repeat(64);

describe('box', () => {
  it('may be left out where a box is named, also before the command', async () => {
    const env = { XDG_CONFIG_HOME: files.dir };
    for (const line of [
      '--profile gone update status',
      'update status --profile=gone',
      '--profile gone box update status',
    ])
      assert.match(
        (await run(line.split(' '), { env })).stderr,
        /cannot read the state of the update: no profile is called "gone"/,
      );
    assert.match(
      (await run(['--token-file', files.file('token', 'lsd_1'), '--host=127.0.0.1:1', '--plaintext', 'doctor'])).stderr,
      /cannot reach the service at 127.0.0.1/,
    );
    // Without a name these are root's commands on this machine, which this program does not have here.
    assert.match((await run(['update', 'status'])).stderr, /unknown command 'update'/);
    assert.match((await run(['update', '--', '--host'])).stderr, /unknown command 'update'/);
  });

  it('adds, lists and revokes tokens', async () => {
    const token = { name: 'ops', roles: ['reader', 'viewer'] };
    routes = {
      'POST tokens': (sent, body) =>
        json({ ...(JSON.parse(body.toString()) as object), token: 'lsd_1' }, 201)(sent, body, sent.req),
      'GET tokens': json({ items: [{ ...token, createdAt: '2026-03-01T09:30:00+00:00' }] }),
      'DELETE tokens/ops': nothing,
    };
    const added = await box('token', 'add', 'ops', '--role', 'reader', '--role', 'viewer');
    assert.match(added.stdout, /^ops \(reader, viewer\) may use this token. It is shown this once:\nlsd_1\n$/);
    assert.match((await box('token', 'list')).stdout, /NAME +ROLES +CREATED\nops +reader,viewer +2026-03-01/);
    assert.equal((await box('token', 'revoke', 'ops')).stdout, 'ops is revoked\n');
    assert.equal((await box('token', 'add', 'ops')).status, 2);
  });

  it('shows the findings of the doctor, and fails with them', async () => {
    const check = (state: string, title: string) => ({
      name: title,
      title,
      state,
      tookMs: 1,
      findings: [{ state, found: `${title} \u001b[2J`, todo: 'Do.' }],
    });
    routes['GET doctor'] = json({
      version: '1',
      state: 'failed',
      checks: [check('ok', 'disk'), check('failed', 'clock')],
    });
    const { status, stdout } = await box('doctor');
    assert.equal(
      stdout,
      'ok       disk   disk  [2J\n                -> Do.\nfailed   clock  clock  [2J\n                -> Do.\n\n2 checks; failed: clock\n',
    );
    assert.equal(status, 1);
    routes['GET doctor'] = json({ version: '1', state: 'ok', checks: [check('ok', 'disk')] });
    assert.equal((await box('doctor')).status, 0);
  });

  it('changes the configuration that it read, or the one of a hash; faults are listed', async () => {
    const change = {
      file: 'lineside.toml',
      hash,
      isChanged: true,
      faults: [],
      warnings: [],
      live: ['log.commit_ms'],
      hub: [],
      restart: [],
      unused: [],
      isReloaded: true,
    };
    const bodies: object[] = [];
    const take =
      (answer: object): Take =>
      (...call) => {
        bodies.push(JSON.parse(call[1].toString()) as object);
        json(answer)(...call);
      };
    const fault = { path: 'log.x', line: 3, message: 'no such key' };
    routes = {
      'GET configuration': json({ file: 'lineside.toml', text: '[log]\n', hash, hidden: 0, hasPrevious: true }),
      'PUT configuration': take(change),
      'POST configuration/check': take({ ...change, faults: [fault] }),
      'POST configuration/undo': take(change),
    };
    const file = files.file('new.toml', '[log]\ncommit_ms = 500\n');
    assert.equal((await box('config', 'show')).stdout, '[log]\n');
    assert.equal(
      (await box('config', 'change', file)).stdout,
      'lineside.toml is changed\napplied by the reload: log.commit_ms\n',
    );
    const dry = await box('config', 'change', '--dry-run', '--if-hash', 'b'.repeat(64), file);
    assert.deepEqual([dry.status, dry.stdout], [2, 'line 3: log.x: no such key\n']);
    await box('config', 'undo');
    const text = '[log]\ncommit_ms = 500\n';
    assert.deepEqual(bodies, [{ hash, text }, { hash: 'b'.repeat(64), text }, { hash }]);
  });
});

describe('box files', () => {
  const save = (file: string, ...more: string[]) => box('backup', files.at(file), ...more);
  const left = () => readdirSync(files.dir).filter((name) => /backup/.test(name));

  it('are written whole under their name, and replace none without --force', async () => {
    routes['GET backup?log=false'] = (sent) => sent.writeHead(200, { 'content-length': 6 }).end('a file');
    assert.equal((await save('one.backup', '--no-log')).stdout, `${files.at('one.backup')}: 6 B\n`);
    assert.equal(readFileSync(files.at('one.backup'), 'utf8'), 'a file');
    asked = [];
    assert.match((await save('one.backup', '--no-log')).stderr, /it exists already. Take another name, or --force/);
    assert.deepEqual(asked, []);
    assert.equal((await save('one.backup', '--no-log', '--force')).status, 0);
  });

  it('are not there when they break off, are refused, or cannot be written', async () => {
    routes['GET backup'] = (sent) => {
      sent.writeHead(200, { 'content-length': 6 }).write('a f');
      setTimeout(() => sent.destroy(), 20);
    };
    const broken = await save('two.backup');
    assert.equal(broken.status, 3);
    assert.match(broken.stderr, /the service broke off in the middle of its answer/);
    routes['GET backup'] = json({ code: 'STORAGE_FULL', detail: 'the box has no room' }, 507);
    assert.match((await save('two.backup')).stderr, /the box has no room/);
    routes['GET backup'] = (sent) => sent.writeHead(200, { 'content-length': 6 }).end('a file');
    assert.match(
      (await box('backup', files.at('missing/two.backup'))).stderr,
      /cannot write .*no such file or directory/,
    );
    assert.deepEqual(left(), ['one.backup']);
  });

  it('are given up when nothing comes for the time limit', async () => {
    routes['GET backup'] = (sent) => sent.writeHead(200, { 'content-length': 6 }).write('a f');
    const words = ['box', 'backup', files.at('three.backup'), '--timeout', '90'];
    const { status, stderr } = await run(words, { httpSocket, clock });
    assert.deepEqual([status, left()], [3, ['one.backup']], stderr);
    assert.match(stderr, /no answer within 90 s/);
  });
});

describe('box update', () => {
  const bundle = { sha256: hash, version: '1.3.0', board: 'board', builtAt: '2026-03-01T09:30:00+00:00', slot: 'b' };
  const work = (state: string, begunAt: string, more: object = {}): Take =>
    json({
      update: { state, begunAt, step: 'writing the root', percent: 40, result: '', error: '', hint: '', ...more },
      restore: null,
    });
  const slots = (more: object) =>
    json({
      version: '1.2.0',
      running: 'a',
      onTrial: false,
      good: 'a',
      trying: null,
      triesLeft: 0,
      failed: null,
      ...more,
    });
  const waiting = { trying: 'b', triesLeft: 3 };

  it('is uploaded, installed, and tried until the box keeps it, whatever cannot be reached meanwhile', async () => {
    let uploaded = '';
    routes = {
      'PUT update/bundle': (sent, body, request) => {
        uploaded = `${body.toString()} ${request.headers['content-length']}`;
        json(bundle)(sent, body, request);
      },
      'POST update/install': nothing,
      // The state of an install of before stands there until the unit writes its own.
      'GET work': inTurn(
        work('done', 'before', { result: '1.2.9' }),
        work('done', 'before'),
        work('running', 'now'),
        brokenOff,
        work('done', 'now', { result: '1.3.0' }),
      ),
      'GET update': inTurn(
        slots(waiting),
        slots(waiting),
        brokenOff,
        json({ code: 'NOT_READY', detail: 'not yet' }, 503),
        slots({ version: '1.3.0', running: 'b', onTrial: true, ...waiting }),
        slots({ version: '1.3.0', running: 'b', good: 'b' }),
      ),
      // Its unit has not ended yet.
      'POST update/try': inTurn(json({ code: 'CONFLICT', detail: 'an update is being installed' }, 409), nothing),
    };
    const words = ['box', 'update', 'install', files.file('new.update', 'bundle'), '--restart'];
    const { status, stdout, stderr } = await run(words, { httpSocket, clock });
    assert.deepEqual([status, stdout], [0, 'the box keeps lineside 1.3.0 in slot b\n'], stderr);
    assert.equal(uploaded, 'bundle 6');
    assert.match(
      stderr,
      /^lineside 1.3.0 of 2026-03-01 .* goes into slot b\nwriting the root: 40 %\nthe box restarts with the update\n$/m,
    );
  });

  it('may take longer than the time limit while it goes on, and no longer than that in one step', async () => {
    let nowMs = 0;
    const later = (answer: Take): Take => {
      return (...sent) => {
        nowMs += 60_000;
        answer(...sent);
      };
    };
    const step = (percent: number): Take => later(work('running', 'now', { percent }));
    const before = json({ update: null, restore: null });
    const install = async (...answers: Take[]) => {
      routes = {
        'PUT update/bundle': json(bundle),
        'POST update/install': nothing,
        'GET work': inTurn(before, ...answers),
      };
      const words = ['box', 'update', 'install', files.at('new.update'), '--timeout', '90'];
      return run(words, { httpSocket, clock: { ...clock, monoMs: () => nowMs } });
    };
    const slow = await install(step(10), step(20), step(30), later(work('done', 'now', { result: '1.3.0' })));
    assert.deepEqual([slow.status, nowMs], [0, 240_000], slow.stderr);
    const stopped = await install(step(10), step(20), step(20), step(20), step(20));
    assert.equal(stopped.status, 3);
    assert.match(stopped.stderr, /no answer within 90 s/);
  });

  it('fails with the reason of the box, and when the box returns to the slot of before', async () => {
    routes = {
      'PUT update/bundle': json(bundle),
      'POST update/install': nothing,
      'GET work': inTurn(
        json({ update: null, restore: null }),
        work('failed', 'now', { error: 'the card cannot be written', hint: 'Replace it.' }),
      ),
      'GET update': inTurn(slots(waiting), slots({ failed: 'b' })),
      'POST update/try': nothing,
    };
    const drive = (...words: string[]) => run(['box', 'update', ...words], { httpSocket, clock });
    const failed = await drive('install', files.at('new.update'), '--restart');
    assert.match(failed.stderr, /cannot install .*: the card cannot be written. Replace it.\n$/);
    assert.ok(!asked.includes('POST update/try'));
    const back = await drive('try');
    assert.equal(back.status, 1);
    assert.match(back.stderr, /the update in slot b did not become healthy: the box returned to slot a/);
  });
});
