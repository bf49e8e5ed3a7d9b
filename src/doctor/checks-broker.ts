/** Check of the way to the broker, step by step, so that the first one that fails is the one that is named: connection, TLS, login, topics. */
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { type Clock, endsWithin, pause } from '../base/clock.ts';
import { messageOf, systemCode } from '../base/errors.ts';
import { instantOfMs } from '../base/instant.ts';
import { type Logger, silentLogger } from '../base/logger.ts';
import type { Config } from '../config/config.ts';
import type { BrokerState, KafkaOptions } from '../kafka/face.ts';
import { type Finding, failed, needsRoot, ok, skipped, warning } from './check.ts';
import { type Connected, calledHosts, connectTo, type Host, judgeConnect } from './checks-net.ts';
import { wordsOf } from './checks-tls.ts';
import { fileBehind, type Place } from './place.ts';
import { readSafely } from './safe-files.ts';

const tlsLimitMs = 5_000;
/** A handshake, a login, the metadata of three topics, on a slow line. */
const loginLimitMs = 12_000;
/** librdkafka's first word may be "disconnected"; what was wrong follows within this. */
const afterwordMs = 1_500;
const lookMs = 50;
const soonMs = 30 * 86_400_000;

/** Of Debian: what librdkafka uses where no file is named. */
const systemAuthorities = '/etc/ssl/certs/ca-certificates.crt';

export async function checkBroker(place: Place): Promise<Finding[]> {
  const { config } = place;
  if (config === undefined) return [];
  if (config.kafka.bootstrap === '') return [skipped('no broker is configured (kafka.bootstrap)')];
  const isTls = config.kafka.securityProtocol.endsWith('ssl');
  const authorities = isTls ? await authoritiesOf(place, config.kafka.caFile) : undefined;
  if (authorities !== undefined && !Buffer.isBuffer(authorities)) return [authorities];
  const hosts = calledHosts(place).filter(({ key }) => key === 'kafka.bootstrap');
  const reached = await Promise.all(hosts.map((host) => reach(place, host, authorities)));
  const findings = reached.flat();
  // With one broker of several the hub gets along.
  const isReached = reached.some((one) => one.every(({ state }) => state === 'ok' || state === 'warning'));
  if (!isReached) return findings;
  const softened = findings.map((one) => (one.state === 'failed' ? { ...one, state: 'warning' as const } : one));
  return [...softened, ...(await login(place, config))];
}

async function authoritiesOf({ isRoot }: Place, caFile: string): Promise<Buffer | Finding> {
  const file = caFile === '' ? systemAuthorities : caFile;
  if (caFile === '' && !existsSync(file)) return Buffer.alloc(0);
  const read = await readSafely(file);
  if (read.kind === 'text') return read.bytes;
  if (read.kind === 'denied' && !isRoot) return needsRoot('the file of kafka.ca_file');
  return failed(`the file of kafka.ca_file cannot be read: ${wordsOf(read)}`, 'Mend the path.');
}

async function reach({ clock }: Place, host: Host, authorities: Buffer | undefined): Promise<Finding[]> {
  const connected = await connectTo(clock, host.host, host.port);
  if (connected.kind === 'failed') return [judgeConnect(host, connected.code)];
  const at = `${host.host}:${host.port}`;
  if (authorities === undefined) {
    connected.socket.destroy();
    return [ok(`${at} takes connections`)];
  }
  return judgeTls(at, host.host, await handshake(clock, connected, host, authorities), clock.wallMs());
}

export type Handshake =
  | { readonly kind: 'late' }
  | { readonly kind: 'failed'; readonly code: string }
  /** `fault`: why the certificate is not trusted; ''. */
  | {
      readonly kind: 'done';
      readonly fault: string;
      readonly fromMs: number;
      readonly toMs: number;
      readonly names: string;
    };

export function judgeTls(at: string, host: string, shake: Handshake, nowMs: number): Finding[] {
  const protocol = 'Check kafka.bootstrap and kafka.security_protocol.';
  if (shake.kind === 'late')
    return [failed(`${at} takes the connection and does not answer TLS within ${tlsLimitMs / 1000} s`, protocol)];
  if (shake.kind === 'failed') return [failed(`${at} does not speak TLS on this port (${shake.code})`, protocol)];
  const { fault, fromMs, toMs, names } = shake;
  const clock = "Or this machine's clock is wrong: see clock.";
  const day = (ms: number): string => instantOfMs(ms).slice(0, 10);
  switch (fault) {
    case '':
      return toMs - nowMs < soonMs
        ? [warning(`${at}: TLS; the broker's certificate ends on ${day(toMs)}`, 'Tell who runs the broker.')]
        : [ok(`${at}: TLS, the certificate is trusted and valid until ${day(toMs)}`)];
    case 'CERT_HAS_EXPIRED':
      return [
        failed(`${at}: the broker's certificate has expired on ${day(toMs)}`, `Tell who runs the broker. ${clock}`),
      ];
    case 'CERT_NOT_YET_VALID':
      return [failed(`${at}: the broker's certificate is not valid before ${day(fromMs)}`, clock)];
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return [
        failed(
          `${at}: the broker's certificate is not for ${host} (${names || 'no name'})`,
          'Name the broker in kafka.bootstrap as its certificate does.',
        ),
      ];
    default:
      return [
        failed(
          `${at}: the broker's certificate is not from an authority that kafka.ca_file names (${fault})`,
          "Put the certificate of the broker's authority into that file.",
        ),
      ];
  }
}

async function handshake(clock: Clock, connected: Connected, { host }: Host, ca: Buffer): Promise<Handshake> {
  if (connected.kind !== 'open') return { kind: 'failed', code: connected.code };
  const { socket } = connected;
  let tls: TLSSocket | undefined;
  const done = new Promise<Handshake>((resolve) => {
    socket.removeAllListeners('error');
    try {
      tls = connectTls({
        socket,
        ...(isIP(host) === 0 && { servername: host }),
        host,
        ...(ca.length > 0 && { ca }),
        rejectUnauthorized: false,
      });
      tls.once('secureConnect', () => resolve(tls === undefined ? { kind: 'late' } : shakenBy(tls)));
      tls.on('error', (error) => resolve({ kind: 'failed', code: systemCode(error) || 'unknown' }));
      tls.once('close', () => resolve({ kind: 'failed', code: 'it hangs up' }));
    } catch (error) {
      resolve({ kind: 'failed', code: systemCode(error) || messageOf(error) });
    }
  });
  let result: Handshake = { kind: 'late' };
  await endsWithin(
    clock,
    tlsLimitMs,
    done.then((found) => (result = found)),
  );
  tls?.destroy();
  socket.destroy();
  return result;
}

function shakenBy(tls: TLSSocket): Handshake {
  const error: unknown = tls.authorizationError;
  const fault = error == null ? '' : typeof error === 'string' ? error : systemCode(error) || messageOf(error);
  const raw = tls.getPeerX509Certificate();
  const cert = raw === undefined ? undefined : new X509Certificate(raw.raw);
  return {
    kind: 'done',
    fault,
    fromMs: cert?.validFromDate.getTime() ?? 0,
    toMs: cert?.validToDate.getTime() ?? 0,
    names: cert?.subjectAltName ?? '',
  };
}

async function login(place: Place, config: Config): Promise<Finding[]> {
  const { kafka } = config;
  let password = '';
  if (kafka.passwordFile !== '') {
    const read = await readSafely(fileBehind('kafka.password_file', kafka.passwordFile));
    if (read.kind === 'denied') return [needsRoot("the broker's password, and so the login,")];
    if (read.kind !== 'text')
      return [failed(`the file of kafka.password_file cannot be read: ${wordsOf(read)}`, 'Mend the path.')];
    password = read.bytes.toString('utf8').replace(/\r?\n$/, '');
    if (password === '')
      return [failed('the file of kafka.password_file is empty', 'Put the password there, and nothing else.')];
  }
  try {
    await import('node-rdkafka');
  } catch {
    return [skipped('login and topics: the Kafka client cannot be loaded here')];
  }
  const { createKafkaBroker } = await import('../kafka/broker.ts');
  const said: string[] = [];
  const logger: Logger = {
    ...silentLogger,
    warn: (_message, fields) => void said.push(String(fields?.['reason'] ?? '')),
  };
  const broker = createKafkaBroker(optionsOf(config, password), place.clock, logger);
  broker.start();
  const state = await settled(place.clock, () => broker.state(), said);
  await broker.stop(0);
  return judgeLogin(state, said, kafka);
}

function optionsOf(config: Config, password: string): KafkaOptions {
  const { kafka, outbox, device } = config;
  const { bootstrap, securityProtocol, username, caFile, compression, messageTimeoutMs, maxMessageBytes } = kafka;
  const topics = ['public', 'internal', 'restricted'].map((scope) => ({
    name: `${kafka.topicPrefix}.${scope}`,
    partitions: kafka.partitions,
    replicationFactor: -1,
    config: {},
  }));
  const login = { bootstrap, securityProtocol, username, password, caFile, compression };
  const limits = { messageTimeoutMs, maxMessageBytes, queueBytes: outbox.inFlightBytes };
  // Topics that are missing are told, never made: a doctor changes nothing.
  return { ...login, ...limits, clientId: `${device.id || 'lineside'}-doctor`, topics, createTopics: false };
}

/** Until it is connected, or says what is wrong. */
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

/** What says most, first. */
const telling = [/user name or password/, /SCRAM|mechanism/, /certificate/, /ACL/, /TLS/, /./];

export function judgeLogin(
  state: Pick<BrokerState, 'connected' | 'topics'>,
  said: readonly string[],
  kafka: Pick<Config['kafka'], 'createTopics' | 'securityProtocol'>,
): Finding[] {
  if (!state.connected) {
    const reason = telling.map((pattern) => said.find((one) => pattern.test(one))).find((one) => one !== undefined);
    if (reason === undefined)
      return [
        failed(
          'the broker does not answer a Kafka client',
          'Is it a broker? Check kafka.bootstrap and kafka.security_protocol.',
        ),
      ];
    return [failed(reason, todoOf(reason))];
  }
  const how = kafka.securityProtocol.startsWith('sasl_') ? 'login accepted' : 'the broker answers';
  return [ok(how), ...state.topics.map((topic) => judgeTopic(topic, kafka.createTopics))];
}

function todoOf(reason: string): string {
  if (/user name or password/.test(reason))
    return 'Check kafka.username and the file of kafka.password_file with who runs the broker.';
  if (/ACL/.test(reason)) return 'Let who runs the broker give this user the rights (write, describe) on the topics.';
  return 'Check kafka.bootstrap, kafka.security_protocol and kafka.ca_file.';
}

function judgeTopic({ name, partitions, lacks }: BrokerState['topics'][number], creates: boolean): Finding {
  const all = lacks.join('; ');
  if (/may not|authorization|ACL/.test(all))
    return failed(
      `topic ${name}: this user is not authorised to see it`,
      'Let who runs the broker give this user the rights (write, describe).',
    );
  if (partitions === 0 && /does not exist/.test(all))
    return creates
      ? warning(
          `topic ${name} is missing`,
          'The service creates it when it connects, if this user may (kafka.create_topics).',
        )
      : failed(`topic ${name} is missing`, 'Create it, or set kafka.create_topics.');
  return lacks.length === 0
    ? ok(`topic ${name}: ${partitions} partitions`)
    : warning(`topic ${name}: ${all}`, 'Tell who runs the broker.');
}
