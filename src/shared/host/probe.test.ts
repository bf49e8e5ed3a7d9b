import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { startTestServer } from '../../../test/grpc/fakes.ts';
import { endsWithin, systemClock } from '../base/clock.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import type { ListenAddress } from '../config/listen.ts';
import { grpcAnswers, httpAnswers, probedAddress } from './probe.ts';

/** What says nothing for so long says nothing. */
const SILENCE_MS = 300;
const ANSWER_MS = 5_000;

async function listening(t: TestContext, server: Server): Promise<ListenAddress> {
  const path = join(temporaryDirectory(t), 'socket');
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => open.add(socket));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.after(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return { kind: 'unix', path };
}

const probes = [
  ['gRPC', grpcAnswers],
  ['HTTP', httpAnswers],
] as const;

test('a real gRPC server answers, on its Unix socket and on TCP', async () => {
  await using s = await startTestServer({ grpc: { listen: ['127.0.0.1:0', 'unix:grpc.sock'] } });
  const { listening: addresses } = s.servers;
  assert.equal(probedAddress(addresses)?.kind, 'unix');
  for (const address of addresses) assert.ok(await endsWithin(systemClock, ANSWER_MS, grpcAnswers(address)));
});

test('an HTTP server answers, whatever it says', async (t) => {
  const asked: string[] = [];
  const server = createHttpServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(503).end();
  });
  const address = await listening(t, server);
  assert.ok(await endsWithin(systemClock, ANSWER_MS, httpAnswers(address)));
  assert.deepEqual(asked, ['/healthz']);
});

for (const [what, answers] of probes) {
  test(`${what}: a listener that accepts and says nothing has not answered`, async (t) => {
    const address = await listening(t, createServer());
    assert.equal(await endsWithin(systemClock, SILENCE_MS, answers(address)), false);
  });

  // A socket that systemd keeps open takes connections when its service has closed its own copy and is about to end.
  test(`${what}: a process that asks in vain can end`, async (t) => {
    const address = await listening(t, createServer());
    const ask = `const { ${answers.name} } = await import('./src/shared/host/probe.ts');
      void ${answers.name}(${JSON.stringify(address)});
      setTimeout(() => undefined, ${SILENCE_MS});`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', ask]);
    t.after(() => child.kill('SIGKILL'));
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    assert.ok(await endsWithin(systemClock, ANSWER_MS, ended));
    assert.equal(await ended, 0);
  });

  test(`${what}: no process listens any more`, async (t) => {
    const server = createServer();
    const address = await listening(t, server);
    await new Promise<void>((resolve) => server.close(() => resolve()));
    await assert.rejects(answers(address), { code: 'ENOENT' });
  });

  test(`${what}: a connection that is refused was answered`, async (t) => {
    const address = await listening(
      t,
      createServer((socket) => socket.destroy()),
    );
    assert.ok(await endsWithin(systemClock, ANSWER_MS, answers(address)));
  });
}

test('asks where this process can reach itself', () => {
  const unix: ListenAddress = { kind: 'unix', path: '/run/x' };
  const own: ListenAddress = { kind: 'tcp', host: '127.0.0.1', port: 1, loopback: true };
  const lan: ListenAddress = { kind: 'tcp', host: '0.0.0.0', port: 1, loopback: false };
  assert.equal(probedAddress([lan, own, unix]), unix);
  assert.equal(probedAddress([lan, own]), own);
  assert.equal(
    probedAddress([
      { ...own, fd: 3 },
      { ...unix, fd: 4 },
    ])?.fd,
    4,
  );
  assert.equal(probedAddress([lan, { ...own, fd: 3 }]), undefined);
});
