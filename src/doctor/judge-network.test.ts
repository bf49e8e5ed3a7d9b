/** The findings of the checks of the network, the broker and the journal: of the good state, and of every bad one. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Handshake, hostsIn, judgeConnect, judgeNetwork, judgeTls, type Resolved } from './checks/network.ts';
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
const connect = (code: string) => () => [judgeConnect(broker, code)];
const tls =
  (shake: Handshake, atMs = nowMs) =>
  () => [judgeTls(brokerPeer, 'b:1', 'b', shake, atMs)];
const cert = (fault: string, atMs?: number) => tls({ fault, fromMs, toMs, names: 'DNS:c' }, atMs);
const unconnected =
  (said: readonly string[], securityProtocol: 'ssl' | 'sasl_ssl' = 'sasl_ssl') =>
  () =>
    judgeLogin({ connected: false, topics: [] }, said, { createTopics: true, securityProtocol });
const topic =
  (partitions: number, ...lacks: string[]) =>
  () => {
    const topics = [{ name: 't', partitions, lacks }];
    return judgeLogin({ connected: true, topics }, [], { createTopics: true, securityProtocol: 'sasl_ssl' });
  };
const closed = 'b:1: the broker closed the connection';
const refused = 'b:1: the broker refuses user name or password (SCRAM-SHA-512)';
table('the broker', [
  ['a refused connection', connect('ECONNREFUSED'), 'failed', /nothing listens there.*kafka\.bootstrap/],
  ['an address without a host', connect('ETIMEDOUT'), 'failed', /timed out/],
  ['no route', connect('ENETUNREACH'), 'failed', /no route/],
  ['a name that does not resolve', connect('ENOTFOUND'), 'skipped', /See network/],
  ['a certificate that is trusted', cert(''), 'ok', /valid until 2027-12-01/],
  ['one that ends soon', cert('', toMs - 86_400_000), 'warning', /ends on 2027-12-01/],
  ['an expired one', cert('CERT_HAS_EXPIRED'), 'failed', /expired on 2027-12-01/],
  ['one that is not valid yet', cert('CERT_NOT_YET_VALID'), 'failed', /not valid before 2026-01-01.*clock/],
  ['one of another name', cert('ERR_TLS_CERT_ALTNAME_INVALID'), 'failed', /not for b \(DNS:c\)/],
  [
    'one of another authority',
    cert('SELF_SIGNED_CERT_IN_CHAIN'),
    'failed',
    /not from an authority that kafka\.ca_file names/,
  ],
  ['no TLS', tls('EPROTO'), 'failed', /does not speak TLS/],
  ['silence', tls('late'), 'failed', /does not answer TLS/],
  ['a login', topic(3), 'ok', /login accepted[\s\S]*topic t: 3 partitions/],
  ['a wrong password', unconnected([closed, refused]), 'failed', /refuses user name or password.*password_file/],
  ['no answer at all', unconnected([]), 'failed', /does not answer a Kafka client/],
  ['a port that wants a login', unconnected([closed], 'ssl'), 'failed', /seems to want a login.*sasl_ssl/],
  ['a missing topic', topic(0, 'does not exist, and kafka.create_topics is false'), 'warning', /missing.*creates it/],
  ['a topic that is not for this user', topic(0, 'could not be checked: it lacks the ACL'), 'failed', /not authorised/],
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
