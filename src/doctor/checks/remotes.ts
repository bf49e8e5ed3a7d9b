/** Checks of the servers that the hub calls, step by step, so that the first step that fails is named: the broker and the collector. */

import { ClientError, Status } from 'nice-grpc';
import type { BrokerState, KafkaOptions } from '../../hub/kafka/face.ts';
import { isPlainLink, openCollector } from '../../hub/upstream/collector-channel.ts';
import { type Clock, pause, withLimit } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type Logger, silentLogger } from '../../shared/base/logger.ts';
import type { Config } from '../../shared/config/config.ts';
import { type Finding, failed, ok, skipped, warning } from '../check.ts';
import { type CheckContext, type ConfiguredContext, readNamedFile } from '../check-context.ts';
import { authoritiesOf, calledHosts, isReached, type Peer, reach, speaksTls } from './network.ts';

// The broker: connection, TLS, login, topics.

/** A handshake, a login, the metadata of three topics, on a slow line. */
const loginLimitMs = 12_000;
/** librdkafka's first report may be "disconnected"; the reason follows within this time. */
const afterwordMs = 1_500;
const lookMs = 50;

export const brokerPeer: Peer = {
  who: 'the broker',
  address: 'kafka.bootstrap',
  authorities: 'kafka.ca_file',
  protocol: 'kafka.bootstrap and kafka.security_protocol',
};

/** How a TLS port ends a plain connection, in librdkafka's messages. */
const isHangUp = /closed the connection|hangs up|does not answer a Kafka client|does not speak TLS/;

/** A name, connection, TLS, login, and TLS once more if a plain port hangs up: 6, 5, 5, 14 and 10 s, never all of them. */
export const brokerLimitMs = 36_000;

export async function checkBroker(context: ConfiguredContext): Promise<Finding[]> {
  const { config } = context;
  if (config.kafka.bootstrap === '') return [skipped('no broker is configured (kafka.bootstrap)')];
  const isTls = config.kafka.securityProtocol.endsWith('ssl');
  const authorities = isTls ? await authoritiesOf(brokerPeer, config.kafka.caFile) : undefined;
  if (authorities !== undefined && !Buffer.isBuffer(authorities)) return [authorities];
  const hosts = calledHosts(context).filter(({ key }) => key === 'kafka.bootstrap');
  const findings = await Promise.all(hosts.map((host) => reach(context, brokerPeer, host, authorities)));
  // With one broker of several the hub gets along.
  if (!findings.some(isReached)) return findings;
  const softened = findings.map((one) => (one.state === 'failed' ? { ...one, state: 'warning' as const } : one));
  const answers = await login(context, config);
  const isShut = !isTls && answers.some(({ state, found }) => state === 'failed' && isHangUp.test(found));
  const [first] = hosts;
  if (!isShut || first === undefined || !(await speaksTls(context, first))) return [...softened, ...answers];
  const { securityProtocol } = config.kafka;
  const shut = `${first.host}:${first.port} speaks TLS, and kafka.security_protocol is "${securityProtocol}"`;
  return [...softened, failed(shut, 'Set it to "ssl", or with a password to "sasl_ssl".')];
}

async function login(context: CheckContext, config: Config): Promise<Finding[]> {
  const { kafka } = config;
  let password = '';
  if (kafka.passwordFile !== '') {
    const what = "the broker's password, and so the login,";
    const read = await readNamedFile('kafka.password_file', kafka.passwordFile, what);
    if (!Buffer.isBuffer(read)) return [read];
    password = read.toString('utf8').replace(/\r?\n$/, '');
    if (password === '')
      return [failed('the file of kafka.password_file is empty', 'Put the password there, and nothing else.')];
  }
  try {
    await import('node-rdkafka');
  } catch {
    return [skipped('login and topics: the Kafka client cannot be loaded here')];
  }
  const { KafkaBroker } = await import('../../hub/kafka/broker.ts');
  const said: string[] = [];
  const logger: Logger = {
    ...silentLogger,
    warn: (_message, fields) => void said.push(String(fields?.['reason'] ?? '')),
  };
  const broker = new KafkaBroker(optionsOf(config, password), context.clock, logger);
  broker.start();
  const state = await settled(context.clock, () => broker.state(), said);
  await broker.stop(0);
  return judgeLogin(state, said, kafka);
}

function optionsOf(config: Config, password: string): KafkaOptions {
  const { kafka, outbox, device } = config;
  const ofLog = config.upstream.to === 'kafka' ? [config.upstream.topic] : [];
  const ofEvents = ['public', 'internal', 'restricted'].map((scope) => `${kafka.topicPrefix}.${scope}`);
  const topics = [...ofEvents, ...ofLog].map((name) => ({
    name,
    partitions: kafka.partitions,
    replicationFactor: -1,
    config: {},
  }));
  const own = { password, topics, clientId: `${device.id}-doctor`, queueBytes: outbox.inFlightBytes };
  // Missing topics are reported, never created: a doctor changes nothing.
  return { ...kafka, ...own, createTopics: false };
}

async function settled(clock: Clock, state: () => BrokerState, said: readonly string[]): Promise<BrokerState> {
  const end = clock.monoMs() + loginLimitMs;
  let spokenMs = Number.POSITIVE_INFINITY;
  while (clock.monoMs() < end && clock.monoMs() - spokenMs < afterwordMs) {
    if (state().connected) return state();
    if (said.length > 0 && spokenMs === Number.POSITIVE_INFINITY) spokenMs = clock.monoMs();
    await pause(clock, lookMs);
  }
  return state();
}

const checkKeys = 'Check kafka.bootstrap, kafka.security_protocol and kafka.ca_file.';
const topicRights = 'Let who runs the broker give this user the rights (write, describe) on the topics.';
/** Reports of librdkafka, the most specific first, with their remedies. */
const reasons: readonly (readonly [RegExp, todo: string])[] = [
  [/user name or password/, 'Check kafka.username and the file of kafka.password_file with who runs the broker.'],
  [/SCRAM|mechanism/, checkKeys],
  [/certificate/, checkKeys],
  [/ACL/, topicRights],
  [/TLS/, checkKeys],
  [/./, checkKeys],
];

export function judgeLogin(
  { connected, topics }: Pick<BrokerState, 'connected' | 'topics'>,
  said: readonly string[],
  { createTopics, securityProtocol }: Pick<Config['kafka'], 'createTopics' | 'securityProtocol'>,
): Finding[] {
  if (connected) {
    const how = securityProtocol.startsWith('sasl_') ? 'login accepted' : 'the broker answers';
    return [ok(how), ...topics.map((topic) => judgeTopic(topic, createTopics))];
  }
  for (const [pattern, todo] of reasons) {
    const reason = said.find((one) => pattern.test(one));
    if (reason === undefined) continue;
    // The handshake went well before.
    if (securityProtocol !== 'ssl' || !isHangUp.test(reason)) return [failed(reason, todo)];
    return [
      failed(
        'the broker speaks TLS and hangs up at the first word: it seems to want a login',
        'Set kafka.security_protocol to "sasl_ssl", with kafka.username and kafka.password_file.',
      ),
    ];
  }
  return [
    failed(
      'the broker does not answer a Kafka client',
      'Is it a broker? Check kafka.bootstrap and kafka.security_protocol.',
    ),
  ];
}

function judgeTopic({ name, partitions, lacks }: BrokerState['topics'][number], creates: boolean): Finding {
  const all = lacks.join('; ');
  if (/may not|authorization|ACL/.test(all))
    return failed(`topic ${name}: this user is not authorised to see it`, topicRights);
  if (partitions === 0 && /does not exist/.test(all)) {
    const found = `topic ${name} is missing`;
    return creates
      ? warning(found, 'The service creates it when it connects, if this user may (kafka.create_topics).')
      : failed(found, 'Create it, or set kafka.create_topics.');
  }
  return lacks.length === 0
    ? ok(`topic ${name}: ${partitions} partitions`)
    : warning(`topic ${name}: ${all}`, 'Notify the operator of the broker.');
}

// The collector of the serial log is called as the hub calls it: for a position.

const answerLimitMs = 5_000;

const collectorPeer: Peer = {
  who: 'the collector',
  address: 'upstream.collector',
  authorities: 'upstream.collector_ca_file',
  protocol: 'upstream.collector and upstream.collector_insecure',
};

export async function checkUpstream(context: ConfiguredContext): Promise<Finding[]> {
  const { config } = context;
  const { to, topic, collector, collectorCaFile } = config.upstream;
  if (to === 'off') return [skipped('the serial log stays on the box (upstream.to)')];
  if (to === 'kafka') return [ok(`the serial log goes to topic ${topic} of the broker: see broker`)];
  const [host] = calledHosts(context).filter(({ key }) => key === 'upstream.collector');
  if (host === undefined || collector === '')
    return [failed('upstream.collector is empty', 'Name the collector, "host:port".')];
  const isPlain = isPlainLink(config.upstream);
  const authorities = isPlain ? undefined : await authoritiesOf(collectorPeer, collectorCaFile);
  if (authorities !== undefined && !Buffer.isBuffer(authorities)) return [authorities];
  const reached = await reach(context, collectorPeer, host, authorities);
  if (!isReached(reached)) return [reached];
  return [reached, await ask(context, config, isPlain, collectorCaFile === '' ? undefined : authorities)];
}

/** Tries the token: requests the position of a log that does not exist. */
async function ask(context: CheckContext, config: Config, isPlain: boolean, ca: Buffer | undefined): Promise<Finding> {
  const token = await tokenOf(config);
  if (typeof token !== 'string') return token;
  const never = new AbortController().signal;
  const channel = openCollector(config.upstream.collector, { isPlain, ca, token }, false);
  try {
    const asked = { deviceId: config.device.id, logId: 'doctor' };
    await withLimit(context.clock, answerLimitMs, never, (signal) =>
      channel.client.getPosition(asked, { signal, metadata: channel.metadata(token) }),
    );
    return ok('the collector answers, and takes the token');
  } catch (error) {
    if (error instanceof LinesideError) return judgeCollector('late');
    return judgeCollector(error instanceof ClientError ? (Status[error.code] ?? '') : '');
  } finally {
    channel.close();
  }
}

const refusals: Readonly<Record<string, readonly [found: string, todo: string]>> = {
  late: [`the collector does not answer within ${answerLimitMs / 1000} s`, 'Notify the operator of the collector.'],
  UNAUTHENTICATED: [
    'the collector refuses the token',
    'Put the token that it knows into the file of upstream.collector_token_file.',
  ],
  PERMISSION_DENIED: ["the collector says that the token is another box's", 'Give this box a token of its own.'],
  UNIMPLEMENTED: ['what listens there is no collector', 'Check upstream.collector.'],
};

/** `how`: the status of its answer; "late": there was none. */
export function judgeCollector(how: string): Finding {
  const [found, todo] = refusals[how] ?? [
    `the collector answers ${how || 'with a failure'}`,
    'Notify the operator of the collector.',
  ];
  return failed(found, todo);
}

async function tokenOf({ upstream }: Config): Promise<string | Finding> {
  if (upstream.collectorTokenFile === '') return '';
  const what = "the collector's token, and so the login,";
  const read = await readNamedFile('upstream.collector_token_file', upstream.collectorTokenFile, what);
  if (!Buffer.isBuffer(read)) return read;
  const token = read.toString('utf8').trim();
  return /^[A-Za-z0-9._~+/=-]{1,4096}$/.test(token)
    ? token
    : failed('the file of upstream.collector_token_file holds no token', 'Put the token there, and nothing else.');
}
