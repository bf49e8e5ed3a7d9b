/**
 * What librdkafka's texts mean: for a message (refused or unreached), and for the operator who reads why there is no connection.
 * node-rdkafka drops the error codes of reports, so the texts are matched. Pure.
 */
import type { Outcome } from './face.ts';
import { BATCH_BYTES } from './settings.ts';

/** librdkafka's own codes (rdkafka.h) where produce() throws them. */
const QUEUE_FULL = -184;
const MESSAGE_TOO_LARGE = 10;
const UNKNOWN_TOPIC = -188;
const UNKNOWN_PARTITION = -190;
const INVALID_ARGUMENT = -186;
const FATAL = -150;

/** `text`: librdkafka's, in lower case as node-rdkafka leaves it: "broker: message size too large". */
export interface Fault {
  readonly code: number;
  readonly text: string;
}

/** Anything that node-rdkafka throws or reports. */
export function faultOf(error: unknown): Fault {
  if (!(error instanceof Error)) return { code: -1, text: String(error).toLowerCase() };
  const { code, origin } = error as Error & { code?: unknown; origin?: unknown };
  const whole = /^(?:local|broker): /i.test(error.message) || typeof origin !== 'string' || origin === 'unknown';
  const text = whole ? error.message : `${origin}: ${error.message}`;
  return { code: typeof code === 'number' ? code : -1, text: text.toLowerCase() };
}

export interface SentMessage {
  readonly topic: string;
  readonly bytes: number;
  /** Bytes that the topic takes, if that is known. */
  readonly topicLimit: number | undefined;
  /** No other message is ever in flight with it. */
  readonly alone?: boolean;
}

export function outcomeOf(fault: Fault, sent: SentMessage): Outcome {
  const { text } = fault;
  if (text === 'broker: message size too large') return tooLarge(sent);
  if (text.startsWith('broker: ') || text === 'local: unknown topic' || text === 'local: unknown partition') {
    return { kind: 'refused', reason: explained(text, sent.topic), permanent: false };
  }
  return { kind: 'unreached', reason: explained(text, sent.topic) };
}

/** What produce() threw: 'full' and 'offline' mean that the message was not taken. */
export function thrownOutcome(fault: Fault, sent: SentMessage): Outcome | 'full' | 'offline' {
  switch (fault.code) {
    case QUEUE_FULL:
      return 'full';
    case MESSAGE_TOO_LARGE:
      return { kind: 'refused', reason: explained('broker: message size too large', sent.topic), permanent: true };
    case UNKNOWN_TOPIC:
    case UNKNOWN_PARTITION:
    case INVALID_ARGUMENT:
      return { kind: 'refused', reason: explained(fault.text, sent.topic), permanent: false };
    default:
      // The broker's own codes are positive: librdkafka caches its answer about a topic, and repeats the answer at once.
      return fault.code > 0
        ? { kind: 'refused', reason: explained(fault.text, sent.topic), permanent: false }
        : 'offline';
  }
}

/** A message that was sent alone, or that is itself above the topic's limit, never fits. Others may be refused because of their batch. */
function tooLarge(sent: SentMessage): Outcome {
  const permanent =
    sent.alone === true || sent.bytes > BATCH_BYTES || (sent.topicLimit !== undefined && sent.bytes > sent.topicLimit);
  // A limit that does not explain the refusal is out of date.
  const limit =
    sent.topicLimit === undefined || exceedsKnownLimit(sent)
      ? ''
      : `, which takes up to ${sent.topicLimit} bytes (max.message.bytes)`;
  return {
    kind: 'refused',
    reason: `the broker finds ${sent.bytes} bytes too large for ${sent.topic}${limit}`,
    permanent,
  };
}

/** The broker refuses what the topic's known limit allows: it has another limit by now. */
export function isLimitOutdated({ text }: Fault, sent: SentMessage): boolean {
  return text === 'broker: message size too large' && exceedsKnownLimit(sent);
}

function exceedsKnownLimit({ bytes, topicLimit }: SentMessage): boolean {
  return topicLimit === undefined || bytes <= topicLimit;
}

/** Thrown by produce(); the event of a fatal error carries only the underlying error. */
export function isFatal(fault: Fault): boolean {
  return fault.code === FATAL;
}

/** "[thrd:main]: Fatal error: Broker: Cluster authorization failed: ...": why the producer failed; undefined: no such line. */
export function fatalReason(line: string): string | undefined {
  const said = /Fatal error: (.*)/.exec(line)?.[1];
  if (said === undefined) return undefined;
  return /Cluster authorization failed/.test(said)
    ? `the broker does not let this user write to any topic: it lacks the ACL (${said})`
    : `the Kafka client failed permanently: ${said}; a new producer is made`;
}

export function isAllDown(text: string): boolean {
  return text === 'local: all broker connections are down';
}

/** A refusal that a missing topic explains. */
export function isTopicMissing(text: string): boolean {
  return /unknown topic|unknown partition/.test(text);
}

function explained(text: string, topic: string): string {
  switch (text) {
    case 'broker: topic authorization failed':
      return `the broker does not let this user write to ${topic}: it lacks the ACL (${text})`;
    case 'broker: message size too large':
      return `too large for ${topic}`;
    case 'local: unknown topic':
    case 'local: unknown partition':
    case 'broker: unknown topic or partition':
      return `the topic ${topic} does not exist (${text})`;
    case 'local: message timed out':
      return 'no acknowledgement in time';
    default:
      return text;
  }
}

/** A broker has answered that none is ready, not even itself. */
export function isNoneReady({ text }: Fault): boolean {
  return text === 'local: partial response';
}

/** Why a probe found no broker, in the words of librdkafka and, where these mislead, for the operator. */
export function unanswered(fault: Fault): string {
  const { text } = fault;
  return isNoneReady(fault)
    ? `the cluster has no broker that is ready: it starts, was frozen, or has lost its controller (${text})`
    : `no broker answers (${text})`;
}

/** Why there is no connection: patterns of lines of librdkafka's log, and the reason for the operator. */
const troubles: readonly (readonly [RegExp, string])[] = [
  [
    /SASL.*(?:invalid credentials|Authentication failed)/i,
    'the broker refuses user name or password (SCRAM-SHA-512): check kafka.username and kafka.password_file',
  ],
  [/SASL.*mechanism/i, 'the broker does not offer SCRAM-SHA-512 on this port: check kafka.bootstrap'],
  [
    /certificate verify failed|verify (?:the )?certificate/i,
    "the broker's certificate is not trusted: check kafka.ca_file, the certificate's dates and names, and this device's clock",
  ],
  [
    /PLAINTEXT broker listener|SSL connection closed by peer|SSL handshake failed.*(?:wrong version number|unexpected message|packet length too long)/i,
    'the broker does not speak TLS on this port: check kafka.bootstrap and kafka.security_protocol',
  ],
  [/SSL handshake failed/i, 'TLS with the broker fails'],
  [
    /(?:ApiVersionRequest failed|Receive failed.*SSL|might be incorrect security\.protocol|connecting to a SSL listener)/i,
    'the broker hangs up at the first word: does this port want TLS or a password (kafka.security_protocol)?',
  ],
  [/Failed to resolve/i, 'the name of the broker cannot be resolved (DNS): check kafka.bootstrap and the network'],
  [
    /Connection refused/i,
    'nothing listens there (connection refused): the broker is down, or kafka.bootstrap is wrong',
  ],
  [/Network is unreachable|No route to host/i, 'there is no route to the broker: check the network'],
  [/Connection setup timed out|timed out|Timed out/i, 'the broker does not answer (timed out)'],
  [/Disconnected|Connection reset|Broken pipe/i, 'the broker closed the connection'],
];

interface ConnectionTrouble {
  readonly reason: string;
  /** The certificate was refused: its fault can be diagnosed. */
  readonly certificate: boolean;
}

/** "[thrd:...]: host:9093/bootstrap: Connect to ipv4#... failed: Connection refused (after 0ms in state CONNECT, ...)" */
export function troubleOf(line: string): ConnectionTrouble {
  const what = line.replace(/^\[thrd:[^\]]*\]: /, '').replace(/ \(after \d+ms in state [^)]*\)/, '');
  const broker = /^(?:\w+:\/\/)?([^\s/]+)(?:\/[^:]*)?: /.exec(what)?.[1] ?? '';
  const found = troubles.find(([pattern]) => pattern.test(what));
  const reason = found?.[1] ?? what;
  return {
    reason: broker === '' || found === undefined ? reason : `${broker}: ${reason}`,
    certificate: /certificate verify failed/i.test(what),
  };
}
