/** Rules between keys, which no single key's schema can state. Pure. */
import { cidrFault } from './cidr.ts';
import type { Config } from './config.ts';
import { showListen } from './listen.ts';
import type { Fault } from './values.ts';

type Rule = readonly [broken: boolean, path: string, message: string];

/** `before`: the faults of single keys; an address list that is empty for those is not reported twice. */
export function crossCheck(config: Config, before: readonly Fault[]): Fault[] {
  const rules = [
    ...lineRules(config),
    ...listenRules(config, before),
    ...kafkaRules(config),
    ...webhookRules(config),
    ...upstreamRules(config),
    ...tlsRules(config),
  ];
  return rules.flatMap(([broken, path, message]) => (broken ? [{ path, message }] : []));
}

function lineRules({ serial }: Config): Rule[] {
  const { port, dataBits, stopBits, packetSize } = serial.line;
  return [
    [serial.atStart === 'open' && port === '', 'serial.line.port', 'must name a port, since serial.at_start is "open"'],
    [
      stopBits === '1.5' && dataBits !== 5,
      'serial.line.stop_bits',
      `1.5 stop bits exist with 5 data bits only, not with ${dataBits}`,
    ],
    [
      port !== '' && packetSize > serial.maxPayloadBytes,
      'serial.line.packet_size',
      'must not be above serial.max_payload_bytes: nothing could be sent',
    ],
    [
      serial.txQueueBytes < serial.maxPayloadBytes,
      'serial.tx_queue_bytes',
      `must be at least serial.max_payload_bytes (${serial.maxPayloadBytes})`,
    ],
  ];
}

function listenRules({ grpc, http }: Config, before: readonly Fault[]): Rule[] {
  const sound = (path: string): boolean => !before.some((fault) => fault.path === path);
  const ofGrpc = grpc.listen.map(showListen).filter((address) => !address.endsWith(':0'));
  const shared = http.listen.map(showListen).filter((address) => ofGrpc.includes(address));
  return [
    [grpc.listen.length === 0 && sound('grpc.listen'), 'grpc.listen', 'must name at least one address'],
    [http.listen.length === 0 && sound('http.listen'), 'http.listen', 'must name at least one address'],
    [shared.length > 0, 'http.listen', `${shared.join(', ')} is in grpc.listen too`],
  ];
}

function kafkaRules({ kafka, outbox }: Config): Rule[] {
  const sasl = kafka.securityProtocol.startsWith('sasl_');
  const tls = kafka.securityProtocol.endsWith('ssl');
  const protocol = `kafka.security_protocol is "${kafka.securityProtocol}"`;
  const badPort = kafka.bootstrap.split(',').find((broker) => Number(/:(\d+)$/.exec(broker)?.[1] ?? 1) > 65_535);
  return [
    [badPort !== undefined, 'kafka.bootstrap', `"${badPort}": the port is above 65535`],
    [sasl && kafka.username === '', 'kafka.username', `must be set, since ${protocol}`],
    [sasl && kafka.passwordFile === '', 'kafka.password_file', `must be set, since ${protocol}`],
    [
      !sasl && kafka.username !== '',
      'kafka.security_protocol',
      `must be "sasl_ssl" or "sasl_plaintext", since kafka.username is set, not "${kafka.securityProtocol}"`,
    ],
    [
      !tls && kafka.caFile !== '',
      'kafka.security_protocol',
      `must be "ssl" or "sasl_ssl", since kafka.ca_file is set, not "${kafka.securityProtocol}"`,
    ],
    [kafka.topicPrefix.startsWith('.'), 'kafka.topic_prefix', 'must not begin with a dot'],
    [kafka.replicationFactor === 0, 'kafka.replication_factor', "must be -1 (the broker's default) or at least 1"],
    [
      outbox.inFlightBytes < kafka.maxMessageBytes,
      'outbox.in_flight_bytes',
      `must be at least kafka.max_message_bytes (${kafka.maxMessageBytes})`,
    ],
  ];
}

function webhookRules({ webhooks }: Config): Rule[] {
  return webhooks.allowCidrs.map((range) => {
    const fault = cidrFault(range);
    return [fault !== undefined, 'webhooks.allow_cidrs', fault ?? ''];
  });
}

/** A budget below this would be gone with the connection and a batch. */
const LEAST_BYTES_PER_DAY = 262_144;

function upstreamRules({ upstream, kafka, grpc }: Config): Rule[] {
  const { to, topic, maxBytesPerDay, collector } = upstream;
  const since = `since upstream.to is "${to}"`;
  const scopes = ['public', 'internal', 'restricted'].map((scope) => `${kafka.topicPrefix}.${scope}`);
  return [
    [to === 'kafka' && kafka.bootstrap === '', 'kafka.bootstrap', `must be set, ${since}`],
    [scopes.includes(topic), 'upstream.topic', `"${topic}" is the topic of change events`],
    [to === 'collector' && collector === '', 'upstream.collector', `must be set, ${since}`],
    [Number(/:(\d+)$/.exec(collector)?.[1] ?? 1) > 65_535, 'upstream.collector', 'the port is above 65535'],
    [
      maxBytesPerDay > 0 && maxBytesPerDay < LEAST_BYTES_PER_DAY,
      'upstream.max_bytes_per_day',
      `must be 0 or at least ${LEAST_BYTES_PER_DAY}`,
    ],
    [
      to !== 'off' && !grpc.listen.some(({ kind }) => kind === 'unix'),
      'grpc.listen',
      `must name a Unix socket, ${since}: the hub reads the log there`,
    ],
  ];
}

function tlsRules({ tls, auth }: Config): Rule[] {
  const hasCert = tls.certFile !== '';
  const hasKey = tls.keyFile !== '';
  const hasCa = tls.clientCaFile !== '';
  const namedCerts = auth.operatorCerts.length + auth.viewerCerts.length;
  return [
    [hasCert && !hasKey, 'tls.key_file', 'must be set, since tls.cert_file is'],
    [hasKey && !hasCert, 'tls.cert_file', 'must be set, since tls.key_file is'],
    [hasCa && !hasCert, 'tls.cert_file', 'must be set, since tls.client_ca_file is: client certificates need TLS'],
    [
      namedCerts > 0 && !hasCa,
      'tls.client_ca_file',
      'must be set, since auth.operator_certs or auth.viewer_certs names certificates',
    ],
  ];
}
