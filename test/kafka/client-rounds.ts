/**
 * Makes Kafka clients and ends them again, a few at a time, each talking through its whole life (`debug`): librdkafka's
 * threads wake Node's loop while the wrapper is only just making the handle for that. Needs no broker: no process listens.
 *   node --import tsx/esm test/kafka/client-rounds.ts COUNT      prints {"ended":COUNT,"lines":N}
 * What scripts/kafka-client fixes in node-rdkafka showed itself as a crash there, or as a close that never came back; so it
 * is run as a process, under a watchdog.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import kafka from 'node-rdkafka';

/** No process listens on port 9, so each of them logs that at once. */
const NO_BROKER = '127.0.0.1:9,127.0.0.2:9,127.0.0.3:9';
const AT_ONCE = 10;

type ClientRounds = Awaited<ReturnType<typeof rounds>>;

class Unasked extends kafka.Producer {
  /** Its first request would have no answer. */
  override getMetadata(_options?: object, done?: (error: never, data: never) => unknown): void {
    done?.(undefined as never, undefined as never);
  }
}

async function oneClient(): Promise<number> {
  let lines = 0;
  const client = new Unasked({ 'bootstrap.servers': NO_BROKER, debug: 'all', event_cb: true, dr_cb: true }, {});
  client.on('event.log', () => void lines++);
  client.on('event.error', () => {});
  await new Promise<void>((resolve) => client.connect({}, () => resolve()));
  await new Promise<void>((resolve) => client.disconnect(0, () => resolve()));
  return lines;
}

/** `lines`: of librdkafka's log, which went the way in question. */
async function rounds(count: number) {
  let [ended, lines] = [0, 0];
  while (ended < count) {
    const some = await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - ended) }, oneClient));
    ended += some.length;
    lines += some.reduce((sum, one) => sum + one, 0);
  }
  return { ended, lines };
}

/** In a process of its own. Rejects when that crashes, or has not ended after the limit. */
export async function clientRounds(count: number, limitMs: number): Promise<ClientRounds> {
  const child = spawn(process.execPath, ['--import', 'tsx/esm', import.meta.filename, String(count)], {
    cwd: join(import.meta.dirname, '../..'),
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: limitMs,
    killSignal: 'SIGKILL',
  });
  let output = '';
  child.stdout.on('data', (bytes: Buffer) => {
    output += bytes;
  });
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => {
      if (status === 0) resolve(JSON.parse(output));
      else reject(new Error(`${count} clients: ended with ${status ?? signal} (SIGKILL: stood for ${limitMs} ms)`));
    });
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  process.stdout.write(JSON.stringify(await rounds(Number(process.argv[2]))));
}
