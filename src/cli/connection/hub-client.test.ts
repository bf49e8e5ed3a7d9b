/** The way to the hub and back: its socket, and every way in which an answer can fail to be one. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { drivesTerminal, type Outcome, run, testFiles } from '../drive.fixture.ts';
import { FakeHub, quietOutbox, Refusal } from '../hub/fake-hub.fixture.ts';

/** A path with characters that a URL would not have. */
const { at } = testFiles('lineside hub%20:');
let hub: FakeHub;
let count = 0;
beforeEach(() => {
  hub = new FakeHub();
});
afterEach(() => hub.stop());

async function onSocket(): Promise<string> {
  count += 1;
  const path = at(`${count}.sock`);
  await hub.listen(path);
  return path;
}
function fails(outcome: Outcome, status: number, text: RegExp): void {
  assert.equal(outcome.status, status, outcome.stderr);
  assert.equal(outcome.stdout, '');
  assert.match(outcome.stderr, /^lineside: cannot .+: .+\. .+\n/);
  assert.match(outcome.stderr, text);
}

describe('the way to the hub', () => {
  it('is the socket of the configuration, of LINESIDE_HTTP_SOCKET, or of --socket, whatever characters its path has', async () => {
    const httpSocket = await onSocket();
    assert.equal((await run(['alerts'], { httpSocket })).stdout, 'no alerts\n');
    assert.equal((await run(['alerts'], { env: { LINESIDE_HTTP_SOCKET: httpSocket } })).status, 0);
    assert.equal((await run(['alerts', '--socket', httpSocket])).status, 0);
    assert.equal((await run(['alerts'], { env: { LINESIDE_SOCKET: httpSocket } })).status, 3);
  });

  it('says that there is no socket', async () => {
    const none = await run(['outbox'], { httpSocket: at('none.sock') });
    fails(none, 3, /no such socket\. .*systemctl status lineside-hub/);
  });
});

describe('an answer', () => {
  it('that refuses is reported with its hint and every reason, and nothing in it drives the terminal', async () => {
    const httpSocket = await onSocket();
    const reasons = ['data/kw must be number', 'data/name\x1b[2J is missing', 'data/x\u202e'];
    hub.refusal = new Refusal(422, 'INVALID_ARGUMENT', 'the data has \x1b]0;3 faults', {
      reasons,
      hint: 'correct the data',
    });
    const args = ['record', 'create', 'pumps', 'P-1', '{}'];
    const refused = await run(args, { httpSocket });
    fails(
      refused,
      1,
      /^lineside: cannot create record P-1 of pumps: the data has .*3 faults\. Correct the data\.\n {2}data\/kw must/,
    );
    assert.equal(refused.stderr.split('\n').length, 5);
    assert.ok(!drivesTerminal(refused.stderr.replaceAll('\n', '')));
    const many = Array.from({ length: 10_001 }, (_, n) => `line ${n + 1}: data/kw must be number`);
    hub.refusal = new Refusal(422, 'INVALID_ARGUMENT', '10001 faults', { reasons: many });
    const { error } = JSON.parse((await run([...args, '--json'], { httpSocket })).stderr) as {
      error: { reasons: string[] };
    };
    assert.deepEqual(error.reasons, [...many.slice(0, -1), '... and 1 more']);
  });

  it('decides the exit status', async () => {
    const httpSocket = await onSocket();
    const cases: readonly [number, string, number, RegExp][] = [
      [401, 'UNAUTHENTICATED', 4, /--token-file/],
      [403, 'PERMISSION_DENIED', 4, /another role/],
      [404, 'NOT_FOUND', 5, /cannot read the audit: words\.\n/],
      [409, 'CONFLICT', 1, /words/],
      [413, 'TOO_LARGE', 1, /less at a time/],
      [503, 'STORAGE_FAILED', 1, /Try again/],
      [503, 'SHUTTING_DOWN', 3, /Try again/],
      [507, 'STORAGE_FULL', 1, /Nothing was written\. See lineside outbox/],
    ];
    for (const [http, code, status, text] of cases) {
      hub.refusal = new Refusal(http, code, 'words');
      const outcome = await run(['audit'], { httpSocket });
      assert.equal(outcome.status, status, code);
      assert.match(outcome.stderr, text);
    }
  });

  it('that is none of the hub is refused as such', async () => {
    const httpSocket = await onSocket();
    const bodies: readonly [type: string, body: string, text: RegExp][] = [
      ['text/html', '<html>router login</html>', /it is no JSON object/],
      ['application/json', '[1,2', /it is no JSON object/],
      ['application/json', '[]', /it is no JSON object/],
      ['application/json', '{"items":[{"version":"x"}]}', /the dictionary has no text "name"/],
      ['application/json', '{"items":7}', /the list has no list of objects "items"/],
      ['application/json', '{"items":[],"nextCursor":""}', /the list has no end/],
    ];
    for (const [type, body, text] of bodies) {
      hub.override = (_, response) => void response.writeHead(200, { 'content-type': type }).end(body);
      for (const more of [[], ['--json']]) {
        const outcome = await run(['dict', 'list', ...more], { httpSocket });
        assert.deepEqual([outcome.status, outcome.stdout], [1, ''], body);
        assert.match(outcome.stderr.replaceAll('\\"', '"'), text);
      }
    }
    hub.override = (_, response) => void response.writeHead(502).end('bad gateway');
    fails(await run(['alerts'], { httpSocket }), 1, /HTTP status 502/);
    hub.override = (_, response) => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end();
    fails(await run(['alerts'], { httpSocket }), 1, /HTTP status 307/);
    hub.override = (request) => void request.socket.end('SSH-2.0-OpenSSH_9.6\r\n');
    fails(await run(['alerts'], { httpSocket }), 1, /it is no HTTP/);
  });

  it('is never taken whole into memory when it has no end', async () => {
    const httpSocket = await onSocket();
    let sent = 0;
    hub.override = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const chunk = Buffer.alloc(1024 * 1024, 'x');
      const more = (): void => {
        while (!response.destroyed && response.write(chunk)) sent += chunk.length;
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    };
    fails(await run(['alerts'], { httpSocket }), 1, /more than 64 MiB/);
    assert.ok(sent < 100 * 1024 * 1024, String(sent));
  });

  it('that breaks off leaves a write in doubt, and says so; a read is only to be tried again', async () => {
    const httpSocket = await onSocket();
    hub.override = (request, response) => {
      request.resume();
      request.once('end', () => {
        response.writeHead(201, { 'content-type': 'application/json', 'content-length': '100' });
        response.write('{"businessKey"', () => response.destroy());
      });
    };
    const write = ['record', 'create', 'pumps', 'P-1', '{}'];
    fails(await run(write, { httpSocket }), 3, /broke off.*It may have been done all the same/);
    fails(await run(['alerts'], { httpSocket }), 3, /broke off.*Try again/);
    hub.override = (request) => void request.resume().once('end', () => request.socket.destroy());
    fails(await run(write, { httpSocket }), 3, /without an answer.*It may have been done all the same/);
    hub.override = (request) => void request.resume();
    fails(
      await run([...write, '--timeout', '0.3'], { httpSocket }),
      3,
      /no answer within 0\.3 s\. It may have been done/,
    );
    fails(await run(['outbox', '--timeout', '0.3'], { httpSocket }), 3, /no answer within 0\.3 s\. .*more time/);
  });

  it('reads all pages, and no further than --limit', async () => {
    const httpSocket = await onSocket();
    hub.pageSize = 2;
    for (let n = 1; n <= 5; n += 1) hub.write('pumps', `P-${n}`, 'created', { data: { n } });
    const all = await run(['record', 'list', 'pumps'], { httpSocket });
    assert.match(all.stdout, /^KEY +VERSION +DATA\nP-1 +1 +\{"n":1\}\n(P-\d .*\n){4}$/);
    const some = await run(['record', 'list', 'pumps', '--limit', '3', '--json'], { httpSocket });
    const lines = some.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { businessKey: string });
    assert.deepEqual(
      lines.map((line) => line.businessKey),
      ['P-1', 'P-2', 'P-3'],
    );
  });

  it('is checked before a script gets it', async () => {
    const httpSocket = await onSocket();
    hub.answers['GET admin/outbox'] = { ...quietOutbox, waiting: 'many' };
    const outcome = await run(['outbox', '--json'], { httpSocket });
    const { error } = JSON.parse(outcome.stderr) as { error: { code: string; message: string } };
    assert.deepEqual([outcome.status, outcome.stdout, error.code], [1, '', 'BAD_ANSWER']);
    assert.match(error.message, /the outbox has no number "waiting"/);
  });
});
