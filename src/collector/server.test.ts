/** The collector over real gRPC: who may push, and what is stored when a push ends, however it does. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { Status } from 'nice-grpc';
import { offersIntermediateSuitesOnly } from '../shared/auth/tls-suites.fixture.ts';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { mountSmall } from '../shared/base/small-disk.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { stored, temporaryDirectory, words } from './batches.fixture.ts';
import { connect, type More, Pushing, refused, start, startTls } from './client.fixture.ts';
import { MAX_PUSHES, PUSH_IDLE_MS, REAUTHENTICATE_MS } from './limits.ts';
import { type Disk, realDisk } from './stored-log.ts';
import { addDeviceToken, revokeDeviceTokens } from './tokens.ts';

describe('a collector', () => {
  it('answers that something is stored, and where to resume, once it is flushed to the disk and not before', async (t) => {
    const release = Promise.withResolvers<void>();
    let [isWritten, waiting] = [false, 0];
    const disk: Disk = {
      ...realDisk,
      async write(...what) {
        await realDisk.write(...what);
        isWritten = true;
      },
      async sync(file) {
        if (isWritten) {
          waiting += 1;
          await release.promise;
        }
        await realDisk.sync(file);
      },
    };
    const { port } = await start(t, { disk });
    t.after(() => release.resolve());
    const answers: string[] = [];
    const pushed = connect(t, port).pushed({ after: 0, through: 5 });
    const asked = until('it is being flushed', () => waiting > 0).then(() => connect(t, port).position());
    for (const [name, answer] of Object.entries({ pushed, asked }))
      void answer.then((to) => answers.push(`${name} ${to}`));
    await until('it is being flushed', () => waiting > 0);
    // Another device's are answered meanwhile: the silence is not the server's.
    for (let n = 0; n < 20; n += 1) await connect(t, port).position('box-2');
    assert.deepEqual(answers, []);
    release.resolve();
    assert.deepEqual(await Promise.all([pushed, asked]), [5, 5]);
  });

  it('reports two boxes that use one device.id, once an hour, and no box that connects again and again', async (t) => {
    const clock = new FakeClock();
    const { logger, lines } = recordingLogger();
    const { port } = await start(t, { clock, logger });
    const reports = (): number => lines.filter((line) => line.includes('two boxes use one device.id')).length;
    for (let n = 1; n <= 10; n += 1) await connect(t, port).pushed({ deviceId: 'alone', after: n - 1, through: n });
    assert.equal(reports(), 0);
    const [one, other] = [connect(t, port), connect(t, port)];
    for (let n = 1; n <= 10; n += 1) {
      await one.pushed({ deviceId: 'twin', logId: 'one', after: n - 1, through: n });
      await other.pushed({ deviceId: 'twin', logId: 'other', after: n - 1, through: n });
    }
    assert.equal(reports(), 1);
    assert.match(lines.join(), /device=twin first=127\.0\.0\.1:\d+ second=127\.0\.0\.1:\d+/);
    clock.advance(3_600_000);
    await one.position('twin', 'one');
    await other.position('twin', 'other');
    assert.equal(reports(), 2);
  });

  it('refuses what a full disk cannot take, keeps what it has, and resumes when there is room', async (t) => {
    // mountSmall() removes it: a directory that removes itself would do so before the file system is unmounted.
    const place = mkdtempSync(join(tmpdir(), 'lineside-collector-full-'));
    if (!mountSmall(t, place, 'size=256k')) return;
    writeFileSync(join(place, 'ballast'), Buffer.alloc(128 * 1024));
    const { dir, port } = await start(t, { dir: join(place, 'logs') });
    const client = connect(t, port);
    let through = 0;
    const next = () => client.pushed({ after: through, through: through + 5, bytes: 1_000 });
    for (;;) {
      const outcome = await next().catch((error: unknown) => error);
      if (typeof outcome !== 'number') break;
      assert.equal(outcome, (through += 5));
      assert.ok(through < 1_000, 'the disk never became full');
    }
    assert.ok(through > 20, 'it was full from the start');
    for (let tries = 0; tries < 3; tries += 1) {
      await refused(next(), Status.RESOURCE_EXHAUSTED, /cannot store the batch: ENOSPC/);
      assert.equal(await client.position(), through);
      assert.deepEqual(await stored(dir), words(1, through));
    }
    // Another log has no room to begin, and the position of one that never began can be asked all the same.
    await refused(
      client.pushed({ logId: 'log-2', after: 0, through: 5, bytes: 1_000 }),
      Status.RESOURCE_EXHAUSTED,
      /ENOSPC/,
    );
    assert.equal(await client.position('box-1', 'log-2'), 0);
    rmSync(join(place, 'ballast'));
    assert.equal(await next(), through + 5);
    assert.equal(await client.pushed({ logId: 'log-2', after: 0, through: 5 }), 5);
    assert.deepEqual(await stored(dir, 'box-1', 'log-1'), words(1, through + 5));
  });

  it('has its directory to itself', async (t) => {
    const { dir, stop } = await start(t);
    await assert.rejects(start(t, { dir }), /another collector uses/);
    await stop();
    await start(t, { dir });
  });

  it('keeps logs and devices apart, whatever their ids are', async (t) => {
    const { dir, port } = await start(t);
    const client = connect(t, port);
    const ids = ['..', '.', 'a/b', '../../up', 'a%2Fb', 'Größe', '~x', 'x'.repeat(128), '漢'.repeat(128), 'a', 'A'];
    for (const [at, id] of ids.entries()) {
      assert.equal(await client.pushed({ deviceId: id, logId: id, after: 0, through: at + 1 }), at + 1);
    }
    for (const [at, id] of ids.entries()) {
      assert.equal(await client.position(id, id), at + 1);
      assert.deepEqual(await stored(dir, id, id), words(1, at + 1));
    }
    for (const id of ['', 'x'.repeat(129), 'a\0b', 'a\nb', '\ufffd']) {
      await refused(client.position(id), Status.INVALID_ARGUMENT, /^device_id: /);
      await refused(client.pushed({ logId: id, after: 0, through: 1 }), Status.INVALID_ARGUMENT, /^log_id: /);
    }
  });

  it('lets a newer push of a device end the older one, which may be dead', async (t) => {
    const { dir, port, pushes } = await start(t);
    const older = new Pushing(connect(t, port));
    older.give({ after: 0, through: 5 });
    await until('the older push is under way', async () => (await connect(t, port).position()) === 5);
    assert.equal(pushes(), 1);
    assert.equal(await connect(t, port).pushed({ after: 5, through: 8 }), 8);
    await refused(older.ended, Status.ABORTED, /a newer push of this device/);
    assert.deepEqual(await stored(dir), words(1, 8));
    await until('no push is left', () => pushes() === 0);
  });

  it('ends a push that brings nothing for long', async (t) => {
    const clock = new FakeClock();
    const { port, pushes } = await start(t, { clock });
    const push = new Pushing(connect(t, port));
    await until('the push is open', () => pushes() === 1);
    clock.advance(PUSH_IDLE_MS);
    await refused(push.ended, Status.DEADLINE_EXCEEDED, /no batch came/);
  });

  it('takes so many pushes at a time and no more', async (t) => {
    const { port, pushes } = await start(t);
    const open: Pushing[] = [];
    // Four of a connection.
    for (let at = 0; at < MAX_PUSHES / 4; at += 1) {
      const client = connect(t, port);
      for (let one = 0; one < 4; one += 1) open.push(new Pushing(client));
    }
    await until('all are open', () => pushes() === MAX_PUSHES);
    await refused(
      connect(t, port).pushed({ after: 0, through: 1 }),
      Status.RESOURCE_EXHAUSTED,
      /pushes at this moment/,
    );
    await Promise.all(open.map((push) => push.end()));
    assert.equal(await connect(t, port).pushed({ after: 0, through: 1 }), 1);
  });

  it('says that it stops, with what came before on the disk', async (t) => {
    const { dir, port, stop } = await start(t);
    const push = new Pushing(connect(t, port));
    push.give({ after: 0, through: 5 });
    await until('the batch is there', async () => (await stored(dir).catch(() => [])).length === 5);
    await stop();
    await refused(push.ended, Status.UNAVAILABLE, /stopping/);
    assert.deepEqual(await stored(dir), words(1, 5));
  });

  it('starts on another address than loopback with TLS and tokens only, or with --insecure', async (t) => {
    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'collector.example']) {
      await assert.rejects(
        start(t, { host }),
        /can be reached from other machines and needs --tls-cert and --tls-key and --tokens/,
      );
    }
    const { port } = await start(t, { host: '0.0.0.0', insecure: true });
    assert.equal(await connect(t, port).position(), 0);
  });
});

describe('tokens of a collector', () => {
  it('let a box push for itself and for no other, over TLS', async (t) => {
    const { port, tokens, caFile } = await startTls(t, { host: '0.0.0.0' });
    const [one, two] = [addDeviceToken(tokens, 'box-1'), addDeviceToken(tokens, 'box 2 / ü')];
    const tls = readFileSync(caFile);
    assert.equal(await connect(t, port, one, tls).pushed({ after: 0, through: 3 }), 3);
    assert.equal(await connect(t, port, two, tls).position('box 2 / ü'), 0);
    const { PERMISSION_DENIED, UNAUTHENTICATED } = Status;
    await refused(connect(t, port, two, tls).position('box-1'), PERMISSION_DENIED, /token is that of another device/);
    await refused(connect(t, port, two, tls).pushed({ after: 3, through: 4 }), PERMISSION_DENIED, /another device/);
    await refused(connect(t, port, 'lsd_wrong', tls).position(), UNAUTHENTICATED, /no such token/);
    await refused(connect(t, port, '', tls).pushed({ after: 3, through: 4 }), UNAUTHENTICATED, /not "Bearer TOKEN"/);
    assert.equal(await connect(t, port, one, tls).position(), 3);
    await offersIntermediateSuitesOnly(port, 'h2');
  });

  it('give each box one push, also one that brings nothing', async (t) => {
    const { port, pushes, token } = await withToken(t);
    const older = new Pushing(connect(t, port, token));
    await until('the push is open', () => pushes() === 1);
    const newer = new Pushing(connect(t, port, token));
    await refused(older.ended, Status.ABORTED, /a newer push of this device/);
    assert.equal(pushes(), 1);
    assert.equal(await newer.end(), 0);
  });

  it('end an open push when they are revoked', async (t) => {
    const clock = new FakeClock();
    const { port, pushes, token, tokens } = await withToken(t, { clock });
    const push = new Pushing(connect(t, port, token));
    await until('the push is open', () => pushes() === 1);
    clock.advance(REAUTHENTICATE_MS);
    push.give({ after: 0, through: 5 });
    const other = connect(t, port, token);
    await until('the batch is there', async () => (await other.position()) === 5);
    revokeDeviceTokens(tokens, 'box-1');
    clock.advance(REAUTHENTICATE_MS);
    await refused(push.ended, Status.UNAUTHENTICATED, /no such token, or it was revoked/);
    await refused(other.position(), Status.UNAUTHENTICATED, /no such token/);
  });

  it('belong to no box if the file is invalid', async (t) => {
    const { port, token, tokens } = await withToken(t);
    writeFileSync(tokens, `box-1 ${token}\n`);
    await refused(connect(t, port, token).position(), Status.UNAUTHENTICATED, /no such token/);
    assert.throws(
      () => addDeviceToken(tokens, 'box-2'),
      (error: Error) => !error.message.includes(token) && /line 1 is not/.test(error.message),
    );
  });
});

/** A collector that knows one box. */
async function withToken(t: TestContext, more: More = {}) {
  const tokens = join(temporaryDirectory(), 'tokens');
  const token = addDeviceToken(tokens, 'box-1');
  return { ...(await start(t, { tokens, ...more })), token, tokens };
}
