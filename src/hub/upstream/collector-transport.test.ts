/** The transport to a collector, against the real one in this process. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { type Gate, openGate } from '../../../test/gate.ts';
import { encoded, temporaryDirectory, u64 } from '../../collector/batches.fixture.ts';
import { start, startTls } from '../../collector/client.fixture.ts';
import { addDeviceToken, revokeDeviceTokens } from '../../collector/tokens.ts';
import { makeCa } from '../../shared/base/certificates.fixture.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { CollectorSettings } from './collector-channel.ts';
import { CollectorTransport } from './collector-transport.ts';
import type { SendOutcome, Transport } from './transport.ts';

const never = new AbortController().signal;
function transport(t: TestContext, port: number, more: Partial<CollectorSettings> = {}): Transport {
  const none = { collectorTokenFile: '', collectorCaFile: '', collectorInsecure: false };
  const settings = { collector: `127.0.0.1:${port}`, ...none, compression: 'zstd' as const, ...more };
  const made = new CollectorTransport(settings, 'box-1', systemClock, silentLogger);
  made.start(() => undefined);
  t.after(() => made.stop());
  return made;
}

/** Entries of the ids from afterId + 1 to throughId, with so many bytes each. */
function batch(afterId: number, throughId: number, bytes: number | Uint8Array = 10, deviceId = 'box-1') {
  const range = { logId: 'log-1', afterId, throughId };
  return { encoded: encoded({ deviceId, after: afterId, through: throughId, bytes }), range };
}

async function gate(t: TestContext, target: () => number): Promise<Gate> {
  const opened = await openGate(target);
  t.after(() => opened.close());
  return opened;
}

function send(to: Transport, { encoded, range }: ReturnType<typeof batch>, signal = never): Promise<SendOutcome> {
  return to.send(encoded, range, signal);
}

describe('the collector transport', () => {
  it('says that a batch is stored once the collector has it, and asks where to resume', async (t) => {
    const { port } = await start(t);
    const to = transport(t, port);
    assert.equal(await to.position('log-1', never), 0);
    const one = batch(0, 100);
    assert.deepEqual(await send(to, one), { kind: 'stored' });
    assert.equal(await to.position('log-1', never), 100);
    assert.equal((await send(to, batch(100, 200))).kind, 'stored');
    assert.equal(await to.position('log-1', never), 200);
    assert.deepEqual(to.state(), { connected: true, reason: '' });
  });

  it('finds the collector again after a break, and says what was in the way meanwhile', async (t) => {
    const dir = join(temporaryDirectory(), 'logs');
    const first = await start(t, { dir });
    let { port } = first;
    const link = await gate(t, () => port);
    const to = transport(t, link.port);
    assert.equal((await send(to, batch(0, 10))).kind, 'stored');
    await first.stop();
    const lost = await send(to, batch(10, 20));
    assert.equal(lost.kind, 'unreached');
    assert.equal(to.state().connected, false);
    assert.match(to.state().reason, /UNAVAILABLE/);
    await assert.rejects(to.position('log-1', never), /UNAVAILABLE/);
    ({ port } = await start(t, { dir }));
    await until('it is connected again', async () => (await to.position('log-1', never).catch(() => -1)) === 10);
    assert.equal((await send(to, batch(10, 20))).kind, 'stored');
    assert.deepEqual(to.state(), { connected: true, reason: '' });
  });

  it('reports that nothing listens at the address of the collector, and what to check', async (t) => {
    const { port, stop } = await start(t);
    await stop();
    const lost = await send(transport(t, port), batch(0, 10));
    assert.match(JSON.stringify(lost), /unreached.*nothing listens there \(connection refused\).*upstream\.collector/);
  });

  it('distinguishes a batch that is always too large from one that may be sent later', async (t) => {
    const { port } = await start(t);
    const to = transport(t, port);
    const faulty = await to.send(batch(0, 5, 10, 'x'.repeat(129)).encoded, batch(0, 5).range, never);
    assert.deepEqual([faulty.kind, faulty.kind === 'refused' && faulty.permanent], ['refused', false]);
    assert.match(faulty.kind === 'refused' ? faulty.reason : '', /INVALID_ARGUMENT: device_id: has 129 characters/);
    const large = await send(to, batch(0, 1, 5 * 1024 * 1024));
    assert.deepEqual([large.kind, large.kind === 'refused' && large.permanent], ['refused', true]);
    const ahead = await send(to, batch(5, 10));
    assert.deepEqual([ahead.kind, ahead.kind === 'refused' && ahead.permanent], ['refused', false]);
    assert.match(ahead.kind === 'refused' ? ahead.reason : '', /OUT_OF_RANGE: after_id: 5 is above the position 0/);
    assert.equal(to.state().connected, true);
    assert.equal((await send(to, batch(0, 10))).kind, 'stored');
  });

  it('shows its token over TLS, takes another one without a new start, and quotes neither it nor what is none', async (t) => {
    const { port, files, tokens, caFile } = await startTls(t);
    makeCa(files, 'other');
    const [own, others] = [addDeviceToken(tokens, 'box-1'), addDeviceToken(tokens, 'box-2')];
    const tokenFile = join(files, 'token');
    const more = { collector: `localhost:${port}`, collectorTokenFile: tokenFile, collectorCaFile: caFile };
    const to = transport(t, port, more);
    const secret = 'lsd_nobodys-own';
    const tried: readonly (readonly [string, RegExp])[] = [
      [`${secret}\n`, /UNAUTHENTICATED/],
      [`${secret} ${secret}\n`, /does not hold one token/],
      [`${secret}\u{1F511}`, /does not hold one token/],
      ['\n', /it is empty/],
      [`${others}\n`, /PERMISSION_DENIED/],
    ];
    const all = [secret, own, others];
    for (const [text, fault] of tried) {
      writeFileSync(tokenFile, text);
      const outcome = await send(to, batch(0, 5));
      assert.ok(outcome.kind !== 'stored');
      assert.match(outcome.reason, fault);
      for (const one of all)
        assert.ok(!outcome.reason.includes(one) && !to.state().reason.includes(one), outcome.reason);
    }
    rmSync(tokenFile);
    await assert.rejects(to.position('log-1', never), /cannot read .*token: ENOENT/);
    writeFileSync(tokenFile, `${own}\r\n`);
    assert.equal((await send(to, batch(0, 5))).kind, 'stored');
    revokeDeviceTokens(tokens, 'box-1');
    await until('it is refused', async () => (await send(to, batch(5, 9))).kind === 'refused');
    const untrusting = transport(t, port, { ...more, collectorCaFile: join(files, 'other.pem') });
    assert.match(JSON.stringify(await send(untrusting, batch(5, 9))), /unreached.*UNAVAILABLE.*certificate/);
  });

  it('ends at once when it is cancelled, and within its time limit if there is no answer', async (t) => {
    const silent = createServer(() => undefined);
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    t.after(() => void silent.close());
    const to = transport(t, (silent.address() as AddressInfo).port);
    const cancelled = new AbortController();
    const sending = send(to, batch(0, 5), cancelled.signal);
    cancelled.abort();
    assert.equal((await sending).kind, 'unreached');
    const asking = to.position('log-1', never);
    await to.stop();
    await assert.rejects(asking);
    assert.equal((await send(to, batch(0, 5))).kind, 'unreached');
  });

  it('costs what it says, or less, on the wire', async (t) => {
    const { port, files, tokens, caFile } = await startTls(t);
    const tokenFile = join(files, 'token');
    writeFileSync(tokenFile, addDeviceToken(tokens, 'box-1'));
    const link = await gate(t, () => port);
    const more = { collector: `localhost:${link.port}`, collectorTokenFile: tokenFile, collectorCaFile: caFile };
    const to = transport(t, link.port, more);
    const before = to.connectBytes;
    const carried = (): number => link.bytes().up + link.bytes().down;
    await to.position('log-1', never);
    assert.ok(carried() <= before, `${carried()} to connect, ${before} announced`);
    to.takeOverhead();
    let afterId = 0;
    // Packs well, packs not at all, and next to nothing.
    for (const data of [Buffer.alloc(200_000, 'abc'), randomBytes(200_000), Buffer.from('x')]) {
      const one = batch(afterId, (afterId += 1), data);
      const [announced, at] = [to.cost(one.encoded), carried()];
      const outcome = await send(to, one);
      const used = carried() - at;
      assert.deepEqual(outcome, { kind: 'stored' });
      assert.ok(used <= announced, `${used} used, ${announced} announced`);
      assert.ok(announced < used * 1.2 + 2_000, `${used} used, ${announced} announced`);
    }
    assert.ok(to.cost(batch(3, 4, Buffer.alloc(200_000, 'abc')).encoded) < 10_000, 'it packs');
    assert.equal(to.takeOverhead(), 0);
  });

  it('lets go of its connection for a rest, and makes another for the next batch', async (t) => {
    const { port } = await start(t);
    const link = await gate(t, () => port);
    const to = transport(t, link.port);
    assert.equal((await send(to, batch(0, 5))).kind, 'stored');
    to.rest();
    await until('no connection is left', () => link.open() === 0);
    assert.equal((await send(to, batch(5, 9))).kind, 'stored');
    assert.equal(link.accepted.length, 2);
    assert.ok(to.takeOverhead() > 0);
  });

  it('goes uncompressed to a collector that cannot unpack', async (t) => {
    const { port, encodings } = await unpackless(t);
    const to = transport(t, port);
    assert.equal((await send(to, batch(0, 5))).kind, 'unreached');
    assert.equal((await send(to, batch(0, 5))).kind, 'stored');
    assert.equal(encodings[0], 'gzip');
    assert.notEqual(encodings[1], 'gzip');
    const one = batch(5, 6, Buffer.alloc(100_000));
    assert.ok(to.cost(one.encoded) > 100_000, 'and says so of what it costs');
  });
});

/** As a server of Go's without its gzip package: UNIMPLEMENTED for what is packed. It takes anything else for stored. */
async function unpackless(t: TestContext): Promise<{ port: number; encodings: unknown[] }> {
  const encodings: unknown[] = [];
  const server = createHttp2Server();
  server.on('stream', (stream, headers) => {
    const encoding = headers['grpc-encoding'] ?? '';
    encodings.push(encoding);
    const type = { ':status': 200, 'content-type': 'application/grpc' };
    if (encoding !== '' && encoding !== 'identity') {
      stream.respond({ ...type, 'grpc-status': '12', 'grpc-message': 'no decompressor' }, { endStream: true });
      return;
    }
    const answer = lineside.v1.PushResult.encode({ throughId: u64(1_000_000) }).finish();
    stream.resume();
    stream.once('end', () => {
      stream.respond(type, { waitForTrailers: true });
      stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, answer.length]), answer]));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => void server.close());
  return { port: (server.address() as AddressInfo).port, encodings };
}
