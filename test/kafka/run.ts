/**
 * scripts/kafka: one Apache Kafka in the foreground, until Ctrl-C.
 *   scripts/kafka [--port 9092] [--sasl-port 9093] [--dir DIRECTORY] [--prefix refdata.cuod.events]
 * Without --dir its data are gone when it ends.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { administrator, standardAcls } from './admin.ts';
import { kafkaJars, Missing } from './jars.ts';
import { startKafka, users } from './kafka.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '9092' },
    'sasl-port': { type: 'string', default: '9093' },
    dir: { type: 'string' },
    prefix: { type: 'string', default: 'refdata.cuod.events' },
  },
});
const [plain, sasl, prefix] = [Number(values.port), Number(values['sasl-port']), values.prefix];
const dir = resolve(values.dir ?? mkdtempSync(join(tmpdir(), 'lineside-kafka-')));
mkdirSync(dir, { recursive: true });

const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const jars = await kafkaJars();
  const kafka = await startKafka({ jars, dir, ports: { plain, sasl, expired: sasl + 1, controller: sasl + 2 } });
  // An orderly end takes Kafka seconds to half a minute: for data that are kept only.
  const end = values.dir === undefined ? 'SIGKILL' : 'SIGTERM';
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => kafka.child.kill(end));
  const admin = administrator(`127.0.0.1:${plain}`);
  await admin.allow(standardAcls(prefix));
  await admin.close();
  say(help(kafka.certificates.caFile));
  await kafka.ended;
} catch (error) {
  process.stderr.write(`kafka: ${error instanceof Missing ? error.message : String(error)}\n`);
  process.exitCode = 1;
} finally {
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}

function help(caFile: string): string {
  const { device, consumer, nobody } = users;
  const compiled = resolve(import.meta.dirname, '../../node_modules/node-rdkafka/build/deps');
  const read = (broker: string, ...more: string[]): string =>
    ['kcat -C -q', '-b', broker, '-t', `${prefix}.public`, ...more].join(' ');
  const scram = ['security.protocol=sasl_ssl', 'sasl.mechanisms=SCRAM-SHA-512', `sasl.username=${consumer.name}`];
  const settings = [...scram, `sasl.password=${consumer.password}`, `ssl.ca.location=${caFile}`].map(
    (one) => `-X ${one}`,
  );
  return `
Apache Kafka is running; its data are in ${dir}. Ctrl-C ends it.

  plain, without users   127.0.0.1:${plain}
  SASL over TLS          127.0.0.1:${sasl}   SCRAM-SHA-512, authority in ${caFile}
    user ${device.name}, password ${device.password}: writes, creates and describes topics ${prefix}*
    user ${consumer.name}, password ${consumer.password}: reads ${prefix}.public, in groups ${consumer.name}.*
    user ${nobody.name}, password ${nobody.password}: may nothing
  SASL over TLS          127.0.0.1:${sasl + 1}   the same with a certificate that has expired

lineside's configuration, plain:

  [kafka]
  bootstrap = "127.0.0.1:${plain}"

or by SCRAM over TLS (the password in a file of its own):

  [kafka]
  bootstrap = "127.0.0.1:${sasl}"
  security_protocol = "sasl_ssl"
  username = "${device.name}"
  password_file = "/path/to/password"
  ca_file = "${caFile}"

What arrives, key and value:

  ${read(`127.0.0.1:${plain}`, "-f '%k %s\\n'")}

  # as the consumer (a kcat with librdkafka before 2.6.1, such as Debian 12's, is lent the one that was compiled here)
  LD_LIBRARY_PATH=${compiled} \\
    ${read(`127.0.0.1:${sasl}`, "-f '%k %s\\n'", ...settings)}
`;
}
