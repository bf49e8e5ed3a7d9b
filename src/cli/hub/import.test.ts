import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { type Clock, systemClock } from '../../shared/base/clock.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { run, start, testFiles } from '../drive.fixture.ts';
import { httpSocket, hub, hubForEach, Refusal } from './fake-hub.fixture.ts';

const megabyte = 1_000_000;
const files = testFiles();
const { at, dir, file } = files;
const line = `${JSON.stringify({ dictionary: 'pumps', businessKey: 'P-1', data: { text: 'x'.repeat(938) } })}\n`;
assert.equal(line.length, 1000);
const big = file('big.ndjson', line.repeat((20 * megabyte) / line.length));
hubForEach(files);

function once(call: () => void): () => void {
  let done = false;
  return () => {
    if (!done) call();
    done = true;
  };
}

describe('import', () => {
  it('sends the file whole, with its type and reason, and answers the counts', async () => {
    const path = file('site.json', '{"items":[]}');
    const done = await run(['import', path, '--reason', 'Grüße 🛢'], { httpSocket });
    assert.match(done.stdout, /^imported: 2 created, 0 updated, 0 closed, 0 unchanged \(2026-.*\)\n$/);
    const [first] = hub.imported;
    assert.deepEqual([first?.text, first?.headers['content-type']], ['{"items":[]}', 'application/json']);
    assert.equal(Buffer.from(String(first?.headers['x-change-reason']), 'latin1').toString('utf8'), 'Grüße 🛢');
    assert.equal(first?.headers['content-length'], '12');
    await run(['import', path, '--format', 'ndjson'], { httpSocket });
    assert.equal(hub.imported[1]?.headers['content-type'], 'application/x-ndjson');
  });

  it('draws a bar on a terminal, within its width, and clears it', async () => {
    const running = start(['import', big], { httpSocket, errorTty: { columns: 70 } });
    hub.importHold = async () =>
      void (await until('the last drawing', () => running.stderr().includes('it is being stored')));
    const done = await running.done;
    assert.equal(done.status, 0);
    assert.equal(hub.imported[0]?.bytes, 20 * megabyte);
    const drawings = done.stderr.split('\r').slice(1);
    assert.match(done.stderr, /\[#*-*\] sent .* of 20\.0 MB \(\d+ %\), .*\/s/);
    assert.match(done.stderr, /sent 20\.0 MB in .*; it is being stored/);
    assert.equal(drawings.at(-1), '\x1b[K');
    for (const drawing of drawings) assert.ok(drawing.replace('\x1b[K', '').length < 70, drawing);
  });

  it('writes plain lines elsewhere, and nothing but the answer with --json', async () => {
    const running = start(['import', big], { httpSocket });
    hub.importHold = async () =>
      void (await until('the last line', () => running.stderr().includes('it is being stored')));
    const plain = await running.done;
    assert.match(
      plain.stderr,
      /^(sent .* of 20\.0 MB \(\d+ %\), .*\/s\n)*sent 20\.0 MB in .*, .*\/s; it is being stored\n$/,
    );
    hub.importHold = async () => undefined;
    const json = await run(['import', big, '--json'], { httpSocket, errorTty: { columns: 70 } });
    assert.equal(json.stderr, '');
    assert.deepEqual(JSON.parse(json.stdout), hub.importAnswer);
  });

  it('has nothing left to do when the answer is there, however early it comes', async () => {
    let timers = 0;
    const clock: Clock = {
      ...systemClock,
      timer(delayMs, call) {
        timers += 1;
        const ended = once(() => (timers -= 1));
        const timer = systemClock.timer(delayMs, () => {
          ended();
          call();
        });
        return {
          cancel: () => {
            ended();
            timer.cancel();
          },
        };
      },
    };
    const path = file('small.ndjson', '{}\n');
    // The hub knows from Content-Length that it has all, perhaps before the command knows that it has sent all.
    for (let n = 0; n < 20; n += 1) await run(['import', path], { httpSocket, clock, errorTty: { columns: 70 } });
    await until('the last timer has ended', () => timers === 0);
    assert.equal(hub.imported.length, 20);
  });

  it('reports the refusal of a bundle that the hub does not read completely', async () => {
    hub.override = (request, response) => {
      const problem = new Refusal(413, 'TOO_LARGE', 'the bundle is too large').problem;
      response.writeHead(413, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem));
      request.resume();
    };
    const refused = await run(['import', big], { httpSocket });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /too large\. Send less at a time/);
  });

  it('says that nothing was imported when the hub disconnects midway', async () => {
    hub.override = (request) => void request.once('data', () => request.socket.destroy());
    const broken = await run(['import', big], { httpSocket });
    assert.equal(broken.status, 3);
    assert.match(broken.stderr, /without an answer.*Nothing was imported\.\n$/);
  });

  it('says that the result is unknown when the hub disconnects with the whole bundle', async () => {
    hub.override = (request) => void request.resume().once('end', () => request.socket.destroy());
    const broken = await run(['import', file('one.ndjson', '{}\n')], { httpSocket });
    assert.equal(broken.status, 3);
    assert.match(broken.stderr, /It may have been done all the same|it may have been imported/);
  });

  it('abandons a hub that takes nothing more', async () => {
    hub.override = () => undefined;
    const stuck = await run(['import', big, '--timeout', '0.3'], { httpSocket });
    assert.equal(stuck.status, 3);
    assert.match(stuck.stderr, /no answer within 0\.3 s\..*Nothing was imported\.\n$/);
  });

  it('waits for a slow standard input as long as it takes', async () => {
    const stdin = new PassThrough();
    const slow = start(['import', '-', '--timeout', '0.2'], { httpSocket, stdin });
    stdin.write('{"a":1}\n');
    await until('the import has begun', () => hub.asked.length === 1);
    const begun = performance.now();
    await until('longer than --timeout', () => performance.now() - begun > 400);
    stdin.end('{"b":2}\n');
    assert.equal((await slow.done).status, 0);
    assert.equal(hub.imported[0]?.text, '{"a":1}\n{"b":2}\n');
    assert.equal(hub.imported[0]?.headers['content-type'], 'application/x-ndjson');
  });

  it('sends nothing when there is nothing, or no file', async () => {
    const cases: readonly [path: string, text: RegExp][] = [
      ['-', /cannot import standard input: there is nothing in it/],
      [file('empty', ''), /there is nothing in it/],
      [at('none'), /there is no such file/],
      [dir, /it is a directory/],
    ];
    for (const [path, text] of cases) {
      const outcome = await run(['import', path], { httpSocket });
      assert.equal(outcome.status, 1, path);
      assert.match(outcome.stderr, text);
    }
    assert.deepEqual(hub.asked, []);
  });

  it('ends with 130 on Ctrl-C midway, and the hub sees that the bundle is not whole', async () => {
    let body: IncomingMessage | undefined;
    let aborted = false;
    hub.override = (request) => {
      body = request.once('data', () => request.pause()).once('close', () => (aborted = !request.complete));
    };
    const stopped = start(['import', big], { httpSocket, errorTty: { columns: 70 } });
    await until('it is in flight', () => hub.asked.length === 1);
    stopped.signal('SIGINT');
    const outcome = await stopped.done;
    assert.equal(outcome.status, 130);
    assert.match(outcome.stderr, /lineside: import ended\. Nothing was imported\.\n$/);
    // A reader that is paused does not see the end of its connection.
    body?.resume();
    await until('the hub has seen it', () => aborted);
  });

  it('says on Ctrl-C that a bundle which was sent whole may have been imported', async () => {
    let whole = false;
    hub.override = (request) => void request.resume().once('end', () => (whole = true));
    const stopped = start(['import', file('two.ndjson', '{}\n')], { httpSocket });
    await until('it is sent', () => whole);
    stopped.signal('SIGINT');
    const outcome = await stopped.done;
    assert.deepEqual([outcome.status, outcome.stdout], [130, '']);
    assert.match(outcome.stderr, /it may have been imported/);
  });
});
