/**
 * A real broker for tests: Apache Kafka on ports of its own, in a directory of its own, gone when the file ends. Where
 * it cannot be had, `brokerMissing` says why, for the `skip` of the tests that want it.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { type Admin, administrator, standardAcls, TOPIC_PREFIX } from './admin.ts';
import { kafkaJars, Missing } from './jars.ts';
import { freePorts, type KafkaPorts, type KafkaProcess, startKafka, users } from './kafka.ts';

export { TOPIC_PREFIX, users };

export type TestBroker = Awaited<ReturnType<typeof startBroker>>;

const jars = await kafkaJars().catch((error: unknown) => {
  if (error instanceof Missing) return error;
  throw error;
});

/** The missing prerequisites of a real broker on this machine; false: none. */
export const brokerMissing: string | false = jars instanceof Missing ? `no Apache Kafka here: ${jars.message}` : false;

const leftovers = new Set<() => Promise<void>>();
// Hooks of the file itself come first: they run in the order in which they were registered.
setImmediate(() => after(() => Promise.all([...leftovers].map((clean) => clean()))));

type Properties = Readonly<Record<string, string>>;

/** Of a broker that is killed: it waits for its own old session to end before it is back. */
export const killable = { 'broker.session.timeout.ms': '1000', 'broker.heartbeat.interval.ms': '200' };

/** `extra`: properties beyond those of kafka.ts, which may depend on its ports. */
export async function startBroker(extra: Properties | ((ports: KafkaPorts) => Properties) = {}) {
  if (jars instanceof Missing) throw jars;
  const dir = mkdtempSync(join(tmpdir(), 'lineside-kafka-'));
  let running: KafkaProcess | undefined;
  let admin: Admin | undefined;
  leftovers.add(async () => {
    running?.child.kill('SIGKILL');
    await running?.ended;
    rmSync(dir, { recursive: true, force: true });
    await admin?.close();
  });
  const ports = await freePorts();
  const properties = typeof extra === 'function' ? extra(ports) : extra;
  const start = async (): Promise<KafkaProcess> => {
    running = await startKafka({ jars, dir, ports, properties });
    return running;
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    running?.child.kill(signal);
    await running?.ended;
  };
  const { certificates } = await start();
  const at = (port: number): string => `127.0.0.1:${port}`;
  admin = administrator(at(ports.plain));
  await admin.allow(standardAcls());
  return {
    /** "127.0.0.1:port" of each listener. */
    plain: at(ports.plain),
    sasl: at(ports.sasl),
    /** As sasl, with a certificate that has expired. */
    expired: at(ports.expired),
    caFile: certificates.caFile,
    /** PEM of an authority that the broker's certificate is not from. */
    strangerCaFile: certificates.strangerCaFile,
    /** Topics and ACLs; valid while the broker runs, and after it was restarted. */
    admin,
    pid: () => running?.child.pid ?? 0,
    /** SIGTERM, and until it has ended. */
    stop: () => end('SIGTERM'),
    /** SIGKILL, and until it has ended. */
    kill: () => end('SIGKILL'),
    /** Again, on the same ports with the same data. */
    restart: async (): Promise<void> => void (await start()),
    /** Frozen: connections stay open without an answer. */
    freeze: (): void => {
      running?.child.kill('SIGSTOP');
      const pid = running?.child.pid;
      if (pid !== undefined) awaitStopped(pid);
    },
    thaw: (): void => void running?.child.kill('SIGCONT'),
  };
}

/** Its threads stop one after the other; until the last one has, it may still answer. */
function awaitStopped(pid: number): void {
  const tasks = `/proc/${pid}/task`;
  const runs = (task: string): boolean => !/\) [Tt] /.test(readFileSync(`${tasks}/${task}/stat`, 'utf8'));
  for (let looks = 0; looks < 10_000; looks++) if (!readdirSync(tasks).some(runs)) return;
  throw new Error(`process ${pid} does not stop`);
}
