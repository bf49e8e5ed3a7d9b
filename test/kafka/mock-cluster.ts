/** librdkafka's mock cluster on command: brokers down, up and slow, requests that fail. No users, no TLS, no admin interface. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { compiled } from '../e2e/uart.ts';

const PACKAGE = resolve(import.meta.dirname, '../../node_modules/node-rdkafka');
const LIBRARY = join(PACKAGE, 'build/deps');

/** The missing prerequisites on this machine; false: none. */
export const mockMissing: string | false = existsSync(join(LIBRARY, 'librdkafka.so.1'))
  ? false
  : 'no librdkafka was compiled here: run scripts/bootstrap';

/** Gone when the file ends. */
export async function startMockCluster() {
  const source = join(import.meta.dirname, 'mock-cluster.c');
  const program = compiled(source, `-I${PACKAGE}/deps/librdkafka/src`, join(LIBRARY, 'librdkafka.so.1'));
  const child = spawn(program, [], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...process.env, LD_LIBRARY_PATH: LIBRARY },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  after(() => child.kill('SIGKILL'));
  const next = async (): Promise<string> => String((await lines.next()).value);
  const bootstrap = await next();
  /** One command of mock-cluster.c. */
  const say = async (command: string): Promise<void> => {
    child.stdin.write(`${command}\n`);
    const answer = await next();
    if (answer !== 'ok 0') throw new Error(`the mock cluster answers ${answer} to ${command}`);
  };
  return { bootstrap, say };
}
