/** The findings of the checks of the network, the broker and the journal: of the good state, and of every bad one. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { hostsIn, judgeConnect, judgeNetwork, judgeTls, type Resolved } from './checks/network.ts';
import { brokerPeer, judgeCollector, judgeLogin } from './checks/remotes.ts';
import { judgeJournal } from './checks/service.ts';
import { judged, table } from './table.fixture.ts';

const nowMs = Date.UTC(2026, 10, 22);
const broker = { key: 'kafka.bootstrap', host: 'b.example', port: 9093 };
const resolved = ['192.0.2.1'];
const hosts = (found: Resolved) => [{ ...broker, resolved: found }];
judged('the network', judgeNetwork, { hasRoute: true, hosts: hosts(resolved) }, [
  ['a name that resolves', {}, 'ok', /b\.example is 192\.0\.2\.1/],
  ['no host to call', { hosts: [] }, 'ok', /way out/],
  ['no route and no host to call', { hasRoute: false, hosts: [] }, 'ok', /none is needed/],
  ['no route', { hasRoute: false }, 'warning', /no default route/],
  ['no such name', { hosts: hosts('ENOTFOUND') }, 'failed', /DNS: b\.example.*no such name/],
  ['no DNS server', { hosts: hosts('EAI_AGAIN') }, 'failed', /no DNS server answers/],
  ['DNS that hangs', { hosts: hosts('late') }, 'failed', /DNS does not answer/],
]);

it('reads lists of hosts', () => {
  const hosts = hostsIn('k', 'a:1, [::1]:2,b,https://c.example:4/x', 9);
  assert.deepEqual(
    hosts.map(({ host: name, port: at }) => `${name} ${at}`),
    ['a 1', '::1 2', 'b 9', 'c.example 4'],
  );
});

const [fromMs, toMs] = [Date.UTC(2026, 0, 1), Date.UTC(2027, 11, 1)];
const tls = (fault: string, atMs = nowMs) => [
  judgeTls(brokerPeer, 'b:1', 'b', { fault, fromMs, toMs, names: 'DNS:c' }, atMs),
];
const known = { createTopics: true, securityProtocol: 'sasl_ssl' } as const;
const topic = { name: 't', partitions: 3, lacks: [] };
const login = (
  said: readonly string[],
  topics: readonly (typeof topic | { name: string; partitions: number; lacks: string[] })[] = [],
) => judgeLogin({ connected: said.length === 0, topics }, said, known);
table('the broker', [
  [
    'a refused connection',
    () => [judgeConnect(broker, 'ECONNREFUSED')],
    'failed',
    /nothing listens there.*kafka\.bootstrap/,
  ],
  ['an address without a host', () => [judgeConnect(broker, 'ETIMEDOUT')], 'failed', /timed out/],
  ['no route', () => [judgeConnect(broker, 'ENETUNREACH')], 'failed', /no route/],
  ['a name that does not resolve', () => [judgeConnect(broker, 'ENOTFOUND')], 'skipped', /See network/],
  ['a certificate that is trusted', () => tls(''), 'ok', /valid until 2027-12-01/],
  ['one that ends soon', () => tls('', toMs - 86_400_000), 'warning', /ends on 2027-12-01/],
  ['an expired one', () => tls('CERT_HAS_EXPIRED'), 'failed', /expired on 2027-12-01/],
  ['one that is not valid yet', () => tls('CERT_NOT_YET_VALID'), 'failed', /not valid before 2026-01-01.*clock/],
  ['one of another name', () => tls('ERR_TLS_CERT_ALTNAME_INVALID'), 'failed', /not for b \(DNS:c\)/],
  [
    'one of another authority',
    () => tls('SELF_SIGNED_CERT_IN_CHAIN'),
    'failed',
    /not from an authority that kafka\.ca_file names/,
  ],
  ['no TLS', () => [judgeTls(brokerPeer, 'b:1', 'b', 'EPROTO', 0)], 'failed', /does not speak TLS/],
  ['silence', () => [judgeTls(brokerPeer, 'b:1', 'b', 'late', 0)], 'failed', /does not answer TLS/],
  ['a login', () => login([], [topic]), 'ok', /login accepted[\s\S]*topic t: 3 partitions/],
  [
    'a wrong password',
    () =>
      login(['b:1: the broker closed the connection', 'b:1: the broker refuses user name or password (SCRAM-SHA-512)']),
    'failed',
    /refuses user name or password.*password_file/,
  ],
  [
    'no answer at all',
    () => judgeLogin({ connected: false, topics: [] }, [], known),
    'failed',
    /does not answer a Kafka client/,
  ],
  [
    'a port that wants a login',
    () =>
      judgeLogin({ connected: false, topics: [] }, ['the broker closed the connection'], {
        ...known,
        securityProtocol: 'ssl',
      }),
    'failed',
    /seems to want a login.*sasl_ssl/,
  ],
  [
    'a missing topic',
    () => login([], [{ name: 't', partitions: 0, lacks: ['does not exist, and kafka.create_topics is false'] }]),
    'warning',
    /missing.*creates it/,
  ],
  [
    'a topic that is not for this user',
    () => login([], [{ name: 't', partitions: 0, lacks: ['could not be looked at: it lacks the ACL'] }]),
    'failed',
    /not authorised/,
  ],
]);

table('the collector', [
  ['a wrong token', () => [judgeCollector('UNAUTHENTICATED')], 'failed', /refuses the token.*collector_token_file/],
  ['the token of another box', () => [judgeCollector('PERMISSION_DENIED')], 'failed', /another box's/],
  ['another service', () => [judgeCollector('UNIMPLEMENTED')], 'failed', /no collector/],
  ['silence', () => [judgeCollector('late')], 'failed', /does not answer/],
  ['anything else', () => [judgeCollector('DATA_LOSS')], 'failed', /DATA_LOSS/],
]);

judged('the journal', judgeJournal, { kind: 'done', lines: [] }, [
  ['a quiet day', {}, 'ok', /no error/],
  ['errors', { lines: ['a', 'error boom token=abcdefgh'] }, 'warning', /2 errors.*boom token=\[removed\]/],
  ['no journal', { kind: 'missing' }, 'skipped', /journalctl/],
  ['one that is not for this user', { kind: 'denied' }, 'skipped', /root/],
  ['one that hangs', { kind: 'late' }, 'skipped', /did not end/],
]);
