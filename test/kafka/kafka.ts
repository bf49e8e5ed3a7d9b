/**
 * Apache Kafka as a process: one node that is broker and controller (KRaft), for scripts/kafka and the tests. Listeners
 * on loopback only: plain, where everyone is administrator; SASL over TLS with SCRAM-SHA-512 and ACLs; and the same
 * with a certificate that has expired.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, pbkdf2Sync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { lasting, makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';
import { freePort } from '../free-port.ts';

export interface KafkaPorts {
  readonly plain: number;
  readonly sasl: number;
  readonly expired: number;
  readonly controller: number;
}

export interface KafkaSettings {
  /** Directory of the jars. */
  readonly jars: string;
  /** What the broker keeps, its certificates and its configuration. Found again by the next start. */
  readonly dir: string;
  readonly ports: KafkaPorts;
  /** Beyond those below, or instead of them. */
  readonly properties?: Readonly<Record<string, string>>;
}

/** Made for tests on this machine and listening on loopback alone, so their passwords are no secrets. */
export const users = {
  /** The device's: may write, create and describe the topics of the prefix. */
  device: { name: 'lineside', password: 'device-test-password' },
  /** A consumer's: may read the public topic, in groups of its own prefix. */
  consumer: { name: 'consumer', password: 'consumer-test-password' },
  /** Known, and allowed nothing. */
  nobody: { name: 'nobody', password: 'nobody-test-password' },
} as const;

const HEAP = ['-Xms64m', '-Xmx256m'];
/** Starts in half the time, and holds less. */
const JVM = [
  ...HEAP,
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-XX:-UsePerfData',
  '-Djava.net.preferIPv4Stack=true',
];
const LOG = [
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
];
const CLUSTER_ID = 'bGluZXNpZGUtdGVzdC0wMQ';
/** Kafka's own default and least. */
const SCRAM_ITERATIONS = 4_096;
const START_LIMIT_MS = 60_000;

type Certificates = Readonly<Record<'caFile' | 'strangerCaFile' | 'goodFile' | 'expiredFile', string>>;

export type KafkaProcess = Awaited<ReturnType<typeof startKafka>>;

/** Resolves when it takes connections; rejects with its log when it ends instead. */
export async function startKafka(settings: KafkaSettings) {
  const { dir, jars } = settings;
  const certificates = certificatesIn(join(dir, 'certificates'));
  const file = join(dir, 'server.properties');
  writeFileSync(file, properties(settings, certificates));
  const { data, classes } = await prepared(jars);
  if (!existsSync(join(dir, 'data', 'meta.properties'))) cpSync(data, join(dir, 'data'), { recursive: true });
  // Another Java than the one that wrote the archive starts without it.
  const { child, ended } = await run(jars, file, `-XX:SharedArchiveFile=${classes}`);
  return { child, certificates, ended };
}

async function run(jars: string, file: string, option: string) {
  // Ends with the process that started it, however that ends.
  const java = ['--pdeathsig', 'KILL', 'java', option, ...JVM, ...LOG, ...classPath(jars), 'kafka.Kafka', file];
  const child = spawn('setpriv', java, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close');
  await started(child, ended);
  return { child, ended };
}

const classPath = (jars: string): string[] => ['-cp', `${jars}/*`];

/**
 * What every start would make again, kept beside the jars for this version of this file: a formatted data directory with the
 * users, to be copied, as the tool takes as long as the broker's own start; and an archive of the classes that a start loads,
 * which saves a third of its processor time.
 */
async function prepared(jars: string) {
  const version = createHash('sha256')
    .update(readFileSync(import.meta.filename))
    .digest('hex')
    .slice(0, 16);
  const kept = `${jars}-${version}`;
  const paths = { data: join(kept, 'data'), classes: join(kept, 'classes.jsa') };
  if (existsSync(kept)) return paths;
  return await locked(`${kept}.lock`, async () => {
    if (!existsSync(kept)) await prepare(jars, kept);
    return paths;
  });
}

export async function freePorts(): Promise<KafkaPorts> {
  return { plain: await freePort(), sasl: await freePort(), expired: await freePort(), controller: await freePort() };
}

/** In a directory of its own: it is complete, or it is not there. */
async function prepare(jars: string, kept: string): Promise<void> {
  const fresh = mkdtempSync(`${kept}.new-`);
  const dir = join(fresh, 'broker');
  const file = join(fresh, 'server.properties');
  try {
    writeFileSync(file, properties({ jars, dir, ports: await freePorts() }, certificatesIn(join(dir, 'certificates'))));
    const scram = Object.values(users).flatMap((user) => ['--add-scram', scramOf(user)]);
    const format = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', file, ...scram];
    execFileSync('java', [...JVM, ...LOG, ...classPath(jars), ...format], { stdio: 'pipe' });
    cpSync(join(dir, 'data'), join(fresh, 'data'), { recursive: true });
    const { child, ended } = await run(jars, file, `-XX:ArchiveClassesAtExit=${join(fresh, 'classes.jsa')}`);
    child.kill('SIGTERM');
    await ended;
    rmSync(dir, { recursive: true });
    renameSync(fresh, kept);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** The work of one process at a time; the lock ends with the process that holds it, however that ends. */
async function locked<T>(file: string, work: () => Promise<T>): Promise<T> {
  const holder = spawn('flock', [file, 'sh', '-c', 'echo locked; cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(holder, 'close');
  try {
    await once(holder.stdout, 'data');
    return await work();
  } finally {
    holder.stdin.end();
    await ended;
  }
}

function scramOf(user: { readonly name: string; readonly password: string }): string {
  const salt = randomBytes(18);
  const salted = pbkdf2Sync(user.password, salt, SCRAM_ITERATIONS, 64, 'sha512').toString('base64');
  const parts = [
    `name=${user.name}`,
    `iterations=${SCRAM_ITERATIONS}`,
    `salt="${salt.toString('base64')}"`,
    `saltedpassword="${salted}"`,
  ];
  return `SCRAM-SHA-512=[${parts.join(',')}]`;
}

/** New for each directory. The authority `stranger` has signed nothing here. */
function certificatesIn(dir: string): Certificates {
  const file = (name: string): string => join(dir, name);
  if (!existsSync(file('expired.pem'))) {
    mkdirSync(dir, { recursive: true });
    makeCa(dir, 'ca', lasting);
    makeCa(dir, 'stranger');
    const names = 'DNS:localhost,IP:127.0.0.1';
    signed(dir, 'good', names, { valid: lasting });
    signed(dir, 'expired', names, { valid: { from: '20200101000000Z', to: '20200201000000Z' } });
    // Key (PKCS#8) and certificate in one file, as Kafka's PEM key stores want it.
    for (const name of ['good', 'expired']) {
      const both = ['key', 'pem'].map((end) => readFileSync(file(`${name}.${end}`), 'utf8'));
      writeFileSync(file(`${name}.pem`), both.join(''));
    }
  }
  return {
    caFile: file('ca.pem'),
    strangerCaFile: file('stranger.pem'),
    goodFile: file('good.pem'),
    expiredFile: file('expired.pem'),
  };
}

async function started(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  const lines: string[] = [];
  const ready = new Promise<void>((resolve, reject) => {
    const limit = setTimeout(
      () => reject(new Error(`Kafka did not start in time:\n${lines.join('\n')}`)),
      START_LIMIT_MS,
    );
    const look = (line: string): void => {
      if (lines.length < 200) lines.push(line);
      if (!line.includes('Kafka Server started')) return;
      clearTimeout(limit);
      resolve();
    };
    for (const stream of [child.stdout, child.stderr]) if (stream) createInterface({ input: stream }).on('line', look);
    ended.then(() => reject(new Error(`Kafka ended:\n${lines.join('\n')}`)), reject).finally(() => clearTimeout(limit));
  });
  await ready;
}

function properties(settings: KafkaSettings, certificates: Certificates): string {
  const { ports, dir } = settings;
  const at = (name: string, port: number): string => `${name}://127.0.0.1:${port}`;
  const outside = [at('PLAIN', ports.plain), at('SASL', ports.sasl), at('EXPIRED', ports.expired)];
  const all: Record<string, string> = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAIN',
    listeners: [...outside, at('CONTROLLER', ports.controller)].join(','),
    'advertised.listeners': outside.join(','),
    'listener.security.protocol.map': 'PLAIN:PLAINTEXT,SASL:SASL_SSL,EXPIRED:SASL_SSL,CONTROLLER:PLAINTEXT',
    'log.dirs': join(dir, 'data'),
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    // Clients of a plain listener: the broker itself, and the tests.
    'super.users': 'User:ANONYMOUS',
    'sasl.enabled.mechanisms': 'SCRAM-SHA-512',
    'auto.create.topics.enable': 'false',
    // What is too old by its time is deleted at once, not within five minutes.
    'log.retention.check.interval.ms': '1000',
    'log.initial.task.delay.ms': '0',
    'offsets.topic.replication.factor': '1',
    'offsets.topic.num.partitions': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'num.network.threads': '1',
    'num.io.threads': '2',
    'log.cleaner.enable': 'false',
    // Twice a second otherwise an idle broker writes to its metadata log: a fifth of its processor time.
    'metadata.max.idle.interval.ms': '0',
    // A refused password is answered at once: the tests wait for it.
    'connection.failed.authentication.delay.ms': '0',
  };
  for (const [listener, keyStore] of [
    ['sasl', certificates.goodFile],
    ['expired', certificates.expiredFile],
  ] as const) {
    const prefix = `listener.name.${listener}`;
    all[`${prefix}.ssl.keystore.type`] = 'PEM';
    all[`${prefix}.ssl.keystore.location`] = keyStore;
    all[`${prefix}.scram-sha-512.sasl.jaas.config`] =
      'org.apache.kafka.common.security.scram.ScramLoginModule required;';
  }
  return Object.entries({ ...all, ...settings.properties })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}
