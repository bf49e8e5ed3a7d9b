/** What a reload changes while the servers listen. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, type PeerCertificate } from 'node:tls';
import { ChannelCredentials } from '@grpc/grpc-js';
import { type ClientError, createChannel, createClient, Status } from 'nice-grpc';
import { endOf, startTestServer } from '../../../test/grpc/fakes.ts';
import { Authority } from '../../shared/base/certificates.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import type { Config } from '../../shared/config/config.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';

const pairKeys = ['tls.cert_file', 'tls.key_file'];
const caKey = 'tls.client_ca_file';

function subjectAt(address: string): Promise<string> {
  const [host = '', port = ''] = address.split(':');
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols: ['h2'] }, () => {
      const certificate: PeerCertificate = socket.getPeerCertificate();
      socket.destroy();
      resolve(String(certificate.subject.CN));
    });
    socket.once('error', reject);
  });
}

test('a renewed certificate is shown to new connections, and the open ones continue', async (t) => {
  const ca = new Authority(temporaryDirectory(t), 'ca');
  const [first, second] = [ca.issue('first', '/CN=first'), ca.issue('second', '/CN=second')];
  const tls = { cert_file: first.certFile, key_file: first.keyFile, client_ca_file: ca.root.certFile };
  await using s = await startTestServer({
    tls,
    auth: { operator_certs: ['laptop'] },
    grpc: { listen: ['0.0.0.0:0'] },
  });
  const address = s.address.replace('0.0.0.0', '127.0.0.1');
  const laptop = ca.issue('laptop', '/CN=laptop');
  const credentials = ChannelCredentials.createSsl(ca.root.cert, laptop.key, laptop.cert);
  const channel = createChannel(`https://${address}`, credentials);
  t.after(() => channel.close());
  const client = createClient(LineServiceDefinition, channel);
  await client.getStatus({});
  assert.equal(await subjectAt(address), 'first');

  const renewed: Config = {
    ...s.config,
    tls: { ...s.config.tls, certFile: second.certFile, keyFile: second.keyFile },
  };
  assert.deepEqual(await s.servers.configure(renewed), []);
  assert.equal(await subjectAt(address), 'second');
  await client.getStatus({});

  // As after "identity renew": the key is a credential of systemd's, which stays what it was at the start.
  const wrong: Config = { ...renewed, tls: { ...renewed.tls, keyFile: first.keyFile } };
  const viewers: Config = { ...wrong, auth: { operatorCerts: [], viewerCerts: ['laptop'], tokensFile: '' } };
  assert.deepEqual(await s.servers.configure(viewers), pairKeys);
  assert.equal(await subjectAt(address), 'second');
  const mayNot = (error: ClientError): boolean => error.code === Status.PERMISSION_DENIED;
  await assert.rejects(client.sendBreak({ durationMs: 1 }), mayNot, 'the rest of the file was taken');

  const noCa: Config = { ...renewed, tls: { ...renewed.tls, clientCaFile: '' } };
  assert.deepEqual(await s.servers.configure(noCa), [caKey]);
  assert.equal(await subjectAt(address), 'second');
  const bare: Config = { ...renewed, tls: { certFile: '', keyFile: '', clientCaFile: '' } };
  assert.deepEqual(await s.servers.configure(bare), [...pairKeys, caKey]);

  // The roles of a certificate's name are checked again for each call.
  const others: Config = { ...renewed, auth: { ...renewed.auth, operatorCerts: ['another'] } };
  assert.deepEqual(await s.servers.configure(others), []);
  await assert.rejects(client.getStatus({}), mayNot);
});

test('a certificate that does not fit its key leaves loopback served, and the next reload brings a good one', async (t) => {
  const ca = new Authority(temporaryDirectory(t), 'ca');
  const [one, other] = [ca.issue('one', '/CN=one'), ca.issue('other', '/CN=other')];
  for (const keyFile of [other.keyFile, '/nowhere/tls.key']) {
    await using s = await startTestServer({
      tls: { cert_file: one.certFile, key_file: keyFile },
      grpc: { listen: ['127.0.0.1:0', '0.0.0.0:0'] },
    });
    const address = s.servers.addresses[1]?.replace('0.0.0.0', '127.0.0.1') ?? '';
    await s.client(LineServiceDefinition).getStatus({});
    await assert.rejects(subjectAt(address));
    assert.match(s.servers.faults().join(), /TLS CERTIFICATE FAULTY/);
    const good: Config = { ...s.config, tls: { ...s.config.tls, keyFile: one.keyFile } };
    assert.deepEqual(await s.servers.configure(good), []);
    assert.equal(await subjectAt(address), 'one');
    assert.deepEqual(s.servers.faults(), []);
  }
});

test('a plaintext address gets TLS with a restart only', async (t) => {
  const ca = new Authority(temporaryDirectory(t), 'ca');
  const pair = ca.issue('box', '/CN=box');
  await using s = await startTestServer({ grpc: { listen: ['0.0.0.0:0'], insecure: true } });
  const secured: Config = { ...s.config, tls: { ...s.config.tls, certFile: pair.certFile, keyFile: pair.keyFile } };
  assert.deepEqual(await s.servers.configure(secured), pairKeys);
});

test('a changed number of log streams counts from the next one on', async () => {
  await using s = await startTestServer();
  const client = s.client(SerialServiceDefinition);
  const ends = new AbortController();
  const read = (): Promise<string> => endOf(client.streamLog({}, { signal: ends.signal }));
  const first = read();
  await until('the first stands', () => s.log.readers === 1);
  const few: Config = { ...s.config, grpc: { ...s.config.grpc, maxSubscribers: 1 } };
  assert.deepEqual(await s.servers.configure(few), []);
  assert.equal(await read(), 'RESOURCE_EXHAUSTED');
  assert.equal(s.log.readers, 1);
  ends.abort();
  assert.notEqual(await first, 'ended');
});
