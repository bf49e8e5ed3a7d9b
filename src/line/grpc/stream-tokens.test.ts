/** A stream lasts as long as its token is good. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Channel, ChannelCredentials } from '@grpc/grpc-js';
import { ClientError, createClient, Metadata, Status } from 'nice-grpc';
import { Requests, startTestServer } from '../../../test/grpc/fakes.ts';
import { addToken, revokeToken } from '../../shared/auth/token-file.ts';
import { Authority } from '../../shared/base/certificates.fixture.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until, within } from '../../shared/base/wait.fixture.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';
import { RX } from '../log/entry.ts';
import { STREAM_REAUTH_MS } from './limits.ts';

/** A server that other machines reach, with tokens and a certificate of an operator, by a clock that the test advances. */
async function serve(t: TestContext) {
  const dir = temporaryDirectory(t);
  const ca = new Authority(dir, 'ca');
  const pair = ca.issue('server', '/CN=box');
  const file = join(dir, 'tokens.json');
  const clock = new FakeClock();
  const config = {
    grpc: { listen: ['0.0.0.0:0'] },
    tls: { cert_file: pair.certFile, key_file: pair.keyFile, client_ca_file: ca.root.certFile },
    auth: { tokens_file: file, operator_certs: ['laptop'] },
  };
  const server = await startTestServer(config, silentLogger, clock);
  t.after(() => server[Symbol.asyncDispose]());
  const address = `127.0.0.1:${server.address.split(':')[1]}`;
  const connect = (token: string, certified = false) => {
    const laptop = certified ? ca.issue('laptop', '/CN=laptop') : undefined;
    const secured = ChannelCredentials.createSsl(ca.root.cert, laptop?.key ?? null, laptop?.cert ?? null);
    const channel = new Channel(address, secured, { 'grpc.use_local_subchannel_pool': 1 });
    t.after(() => channel.close());
    const metadata = token === '' ? new Metadata() : new Metadata({ authorization: `Bearer ${token}` });
    const options = { '*': { metadata } };
    return {
      serial: createClient(SerialServiceDefinition, channel, options),
      line: createClient(LineServiceDefinition, channel, options),
    };
  };
  const token = (name: string, role: string): string => addToken(file, name, [role], new Date());
  return { ...server, clock, file, connect, token };
}

/** What a stream has given, and how it ended. */
function follow<T>(stream: AsyncIterable<T>) {
  const got: T[] = [];
  const seen: { end?: { code: Status; details: string } } = {};
  const read = async (): Promise<void> => {
    for await (const one of stream) got.push(one);
  };
  const ended = read().then(
    () => {
      seen.end = { code: Status.OK, details: '' };
    },
    (error: unknown) => {
      assert.ok(error instanceof ClientError, String(error));
      seen.end = { code: error.code, details: error.details };
    },
  );
  return { got, seen, ended };
}

/** In answers of any of the three streams. */
function entriesIn(got: readonly object[]): number {
  const of = (one: object): number => {
    if ('entries' in one && Array.isArray(one.entries)) return one.entries.length;
    if ('log' in one && typeof one.log === 'object' && one.log !== null) return of(one.log);
    return 'rawData' in one ? 1 : 0;
  };
  return got.reduce<number>((sum, one) => sum + of(one), 0);
}

test('streams end when their token is revoked, a Session too, and nothing of it reaches the line afterwards', async (t) => {
  const { line, log, clock, file, connect, token } = await serve(t);
  const revoked = connect(token('revoked', 'operator'));
  const kept = follow(connect(token('kept', 'viewer')).line.readLog({ follow: true }));
  const certified = follow(connect('', true).line.readLog({ follow: true }));
  const asked = new Requests();
  t.after(() => asked.end());
  const session = follow(revoked.line.session(asked));
  const streams: ReturnType<typeof follow<object>>[] = [
    session,
    follow(revoked.line.readLog({ follow: true })),
    follow(revoked.serial.streamLog({ fromStart: true })),
  ];
  asked.push({ log: { follow: true } });
  asked.push({ send: { payload: Buffer.from('before') } });
  log.record(RX, 1, Buffer.from('x'));
  const haveRead = (count: number, of: readonly { readonly got: readonly object[] }[]): boolean =>
    of.every(({ got }) => entriesIn(got) === count);
  const all = [...streams, kept, certified];
  await until('every stream has begun', () => haveRead(1, all));
  await until('the packet is sent', () => line.sends.length === 1);
  assert.equal(log.readers, 5);

  clock.advance(STREAM_REAUTH_MS);
  log.record(RX, 2, Buffer.from('y'));
  await until('a good token reads on', () => haveRead(2, all));
  revokeToken(file, 'revoked');
  await until('the streams to end', () => {
    clock.advance(STREAM_REAUTH_MS);
    return streams.every(({ seen }) => seen.end !== undefined);
  });
  for (const { seen } of streams) {
    assert.deepEqual(seen.end, { code: Status.UNAUTHENTICATED, details: 'no such token, or it was revoked' });
  }
  asked.push({ send: { payload: Buffer.from('after') } });
  await until('their readers are gone', () => log.readers === 2);
  log.record(RX, 3, Buffer.from('z'));
  await until('the others read on', () => haveRead(3, [kept, certified]));
  assert.deepEqual([kept.seen.end, certified.seen.end], [undefined, undefined]);
  assert.equal(line.sends.length, 1);
});

test('a Session ends when its token no longer has the role for it; its packets in flight are abandoned', async (t) => {
  const { line, clock, file, connect, token } = await serve(t);
  const asked = new Requests();
  t.after(() => asked.end());
  const given: AbortSignal[] = [];
  line.onSend = ({ signal }) => {
    given.push(signal);
    return new Promise(() => {});
  };
  const session = follow(connect(token('demoted', 'operator')).line.session(asked));
  asked.push({ send: { payload: Buffer.from('held back by the line') } });
  await until('the packet waits', () => given.length === 1);
  writeFileSync(file, readFileSync(file, 'utf8').replace('"operator"', '"viewer"'));
  await until('the Session to end', () => {
    clock.advance(STREAM_REAUTH_MS);
    return session.seen.end !== undefined;
  });
  await within('it has ended', session.ended);
  assert.equal(session.seen.end?.code, Status.PERMISSION_DENIED);
  await until('the packet is abandoned', () => given[0]?.aborted === true);
});
