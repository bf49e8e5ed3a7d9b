/** The subscriber program, running, with its certificate; and what lineside's subscription and the bare loop have in common. */
import { join } from 'node:path';
import { makeCa, signed } from '../../../src/shared/base/certificates.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { program } from '../outbox/child.ts';
import { lineReader, stop } from '../processes.ts';

export interface Subscriber {
  /** Accepts at once. */
  readonly url: string;
  /** Never answers. */
  readonly silentUrl: string;
  readonly caFile: string;
  /** Seconds that the next `count` requests took from the first to the last. */
  claim(): Promise<number>;
  close(): Promise<void>;
}

/** `count`: of requests that are timed together. */
export async function startSubscriber(count: number): Promise<Subscriber> {
  const dir = temporaryDirectory();
  makeCa(dir);
  signed(dir, 'subscriber', 'IP:127.0.0.1');
  const files = ['subscriber.pem', 'subscriber.key'].map((name) => join(dir, name));
  const child = program('subscriber', [...files, count]);
  const next = lineReader(child.stdout);
  const reported = async <T>(): Promise<T> => {
    const line = await next();
    if (line === undefined) throw new Error('the subscriber has ended');
    return JSON.parse(line) as T;
  };
  const { port } = await reported<{ port: number }>();
  return {
    url: `https://127.0.0.1:${port}/hook`,
    silentUrl: `https://127.0.0.1:${port}/silent`,
    caFile: join(dir, 'ca.pem'),
    claim: async () => (await reported<{ seconds: number }>()).seconds,
    close: () => stop(child),
  };
}
