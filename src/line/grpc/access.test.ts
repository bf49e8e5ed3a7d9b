import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { credentials, Metadata } from '@grpc/grpc-js';
import { startTestServer, type TestServer } from '../../../test/grpc/fakes.ts';
import { RawClient } from '../../../test/grpc/raw-client.ts';
import { addToken } from '../../shared/auth/token-file.ts';
import { Authority, type Pair } from '../../shared/base/certificates.fixture.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';
import { certificateRoles, mayCall, roleNeeded } from './access.ts';

const methods = [...Object.values(SerialServiceDefinition), ...Object.values(LineServiceDefinition)];
const viewer = [
  '/serial.SerialService/ListDevices',
  '/serial.SerialService/GetCurrentConfig',
  '/serial.SerialService/StreamLog',
  '/lineside.v1.LineService/GetStatus',
  '/lineside.v1.LineService/ReadLog',
  '/lineside.v1.LineService/SearchLog',
  '/lineside.v1.LineService/GetLogHistogram',
  '/lineside.v1.LineService/ListEvents',
  '/lineside.v1.LineService/GetModemLines',
];
const standard = ['/grpc.health.v1.Health/Check', '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'];

const dir = temporaryDirectory({ after });
let ca: Authority;
let otherCa: Authority;
let server: TestServer;
let remote = '';
const tokens = new Map<string, string>();
const { logger, lines: refusals } = recordingLogger();

before(async () => {
  ca = new Authority(dir, 'ca');
  otherCa = new Authority(dir, 'other-ca');
  const pair = ca.issue('server', '/CN=box');
  const file = join(dir, 'tokens.json');
  for (const role of ['viewer', 'operator', 'admin']) tokens.set(role, addToken(file, role, [role], new Date()));
  server = await startTestServer(
    {
      grpc: { listen: ['0.0.0.0:0', '127.0.0.1:0', 'unix:grpc.sock'] },
      tls: { cert_file: pair.certFile, key_file: pair.keyFile, client_ca_file: ca.root.certFile },
      auth: { tokens_file: file, operator_certs: ['laptop'], viewer_certs: ['wall-display'] },
    },
    logger,
  );
  remote = `127.0.0.1:${(server.servers.addresses[0] ?? '').split(':')[1]}`;
});
after(async () => {
  await server[Symbol.asyncDispose]();
});

interface Caller {
  readonly tls?: boolean;
  readonly certificate?: Pair;
  readonly authorization?: string;
}

/** The status that a call of the method ends with, or OK: what a method answers to an empty message does not matter here. */
async function outcome(address: string, path: string, { tls = false, certificate, authorization }: Caller) {
  const channel = tls
    ? credentials.createSsl(ca.root.cert, certificate?.key ?? null, certificate?.cert ?? null)
    : credentials.createInsecure();
  const client = new RawClient(address, {}, channel);
  const metadata = new Metadata();
  if (authorization !== undefined) metadata.set('authorization', authorization);
  const { code, details } = await client.stream(path, [Buffer.alloc(0)], metadata);
  client.close();
  const notAdmitted = ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'].includes(code);
  return notAdmitted ? { code, details } : { code: 'OK', details: '' };
}

function bearer(role: string): string {
  return `Bearer ${tokens.get(role)}`;
}

const releaseHold = '/lineside.v1.LineService/ReleaseHold';

test('every method needs the role that the decisions give it', () => {
  assert.deepEqual(
    methods.map(({ path }) => path).filter((path) => roleNeeded(path) === 'viewer'),
    viewer,
  );
  assert.deepEqual(
    methods.map(({ path }) => path).filter((path) => roleNeeded(path) === 'admin'),
    [releaseHold],
  );
  assert.equal(roleNeeded('/some.New/Method'), 'operator');
  assert.ok(mayCall(['operator'], viewer[0] ?? '') && !mayCall(['admin', 'writer'], viewer[0] ?? ''));
});

const callers: [string, () => Caller, (path: string) => string][] = [
  ['no credentials', () => ({}), () => 'UNAUTHENTICATED'],
  ['a viewer token', () => ({ authorization: bearer('viewer') }), byViewer],
  ['an operator token', () => ({ authorization: bearer('operator') }), byOperator],
  ['an admin token', () => ({ authorization: bearer('admin') }), (path) => allowed(path === releaseHold)],
  ['a viewer certificate', () => ({ certificate: issue('wall-display') }), byViewer],
  ['an operator certificate', () => ({ certificate: issue('laptop') }), byOperator],
  ['a certificate without a role', () => ({ certificate: issue('stranger') }), () => 'PERMISSION_DENIED'],
];
const issued = new Map<string, Pair>();
function issue(name: string): Pair {
  const known = issued.get(name) ?? ca.issue(name, `/CN=${name}`);
  issued.set(name, known);
  return known;
}
function allowed(may: boolean): string {
  return may ? 'OK' : 'PERMISSION_DENIED';
}
function byViewer(path: string): string {
  return allowed(viewer.includes(path) || standard.includes(path));
}
function byOperator(path: string): string {
  return allowed(path !== releaseHold);
}

for (const [who, caller, expected] of callers) {
  test(`beyond this machine, ${who} may call what its role says`, async () => {
    const paths = [...methods.map(({ path }) => path), ...standard];
    const got = await Promise.all(paths.map((path) => outcome(remote, path, { tls: true, ...caller() })));
    assert.deepEqual(
      paths.map((path, i) => `${path} ${got[i]?.code}`),
      paths.map((path) => `${path} ${expected(path)}`),
    );
  });
}

test('loopback and the Unix socket ask for nothing', async () => {
  const [, loopback = '', socket = ''] = server.servers.addresses;
  for (const address of [loopback, socket]) {
    const paths = [...methods.map(({ path }) => path), ...standard];
    const got = await Promise.all(paths.map((path) => outcome(address, path, {})));
    assert.deepEqual(
      got.map(({ code }) => code),
      paths.map(() => 'OK'),
    );
  }
});

const bad: [string, () => Caller, RegExp][] = [
  ['a wrong token', () => ({ authorization: `Bearer lsd_${'x'.repeat(43)}` }), /no such token/],
  ['another scheme', () => ({ authorization: 'Basic eDp5' }), /not "Bearer TOKEN"/],
  ['an empty token', () => ({ authorization: 'Bearer' }), /not "Bearer TOKEN"/],
  [
    'a wrong token beside a good certificate',
    () => ({ authorization: 'Bearer x', certificate: issue('laptop') }),
    /no such token/,
  ],
  [
    'a certificate of another authority',
    () => ({ certificate: otherCa.issue('forged', '/CN=laptop') }),
    /certificate is not accepted: \S+/,
  ],
  [
    'an expired certificate',
    () => ({ certificate: ca.issue('expired', '/CN=laptop', { from: '20200101000000Z', to: '20200102000000Z' }) }),
    /not accepted: CERT_HAS_EXPIRED/,
  ],
  ['a certificate with two names', () => ({ certificate: ca.issue('two', '/CN=stranger/CN=laptop') }), /.*/],
];
for (const [what, caller, text] of bad) {
  test(`${what} is refused`, async () => {
    const got = await outcome(remote, '/serial.SerialService/ListDevices', { tls: true, ...caller() });
    assert.match(got.code, /^UNAUTHENTICATED$|^PERMISSION_DENIED$/);
    assert.match(got.details, text);
  });
}

test('an insufficient role is named', async () => {
  const got = await outcome(remote, '/serial.SerialService/Open', { tls: true, authorization: bearer('viewer') });
  assert.deepEqual(got, {
    code: 'PERMISSION_DENIED',
    details: 'token "viewer" has not the role operator that this needs',
  });
});

test('plain HTTP/2 does not get through to a TLS address', async () => {
  assert.equal((await outcome(remote, '/serial.SerialService/ListDevices', {})).code, 'UNAVAILABLE');
});

test('insecure = true asks for nothing anywhere', async () => {
  await using open = await startTestServer({ grpc: { listen: ['0.0.0.0:0'], insecure: true } });
  const port = open.address.split(':')[1];
  assert.equal((await outcome(`127.0.0.1:${port}`, '/serial.SerialService/Close', {})).code, 'OK');
});

test('refused callers are in the log', () => {
  assert.equal(refusals.length, 1);
  assert.match(refusals[0] ?? '', /peer=127\.0\.0\.1:\d+ .*refusals=1/);
});

test('certificate names give roles, "*" to any', () => {
  const names = { operatorCerts: ['a'], viewerCerts: ['*'] };
  assert.deepEqual(certificateRoles('a', names), ['operator']);
  assert.deepEqual(certificateRoles('b', names), ['viewer']);
  assert.deepEqual(certificateRoles('b', { operatorCerts: [], viewerCerts: ['B', 'b '] }), []);
});
