/** A StreamLog subscription that remembers what came. */

import { within } from '../../src/shared/base/wait.fixture.ts';
import type { serial } from '../../src/shared/proto/services.ts';
import type { Client } from './daemon.ts';

export interface Tail {
  readonly entries: readonly serial.SerialLogEntry[];
  /** The bytes of one direction, in log order. */
  bytes(direction: 'TX' | 'RX'): Buffer;
  /** Resolves with what ended the stream, when it has ended by itself. */
  readonly ended: Promise<unknown>;
  /** Cancels it. */
  end(): Promise<void>;
}

const numbers = { TX: 0, RX: 1 } as const;

/** Resolves when the subscription stands. */
export async function tailLog(client: Client, fromStart = false): Promise<Tail> {
  const entries: serial.SerialLogEntry[] = [];
  const stop = new AbortController();
  const standing = Promise.withResolvers<void>();
  const read = async (): Promise<void> => {
    const options = { signal: stop.signal, onHeader: () => standing.resolve() };
    for await (const entry of client.serial.streamLog({ fromStart }, options)) entries.push(entry);
  };
  const ended = read().then(
    () => undefined,
    (error: unknown) => {
      standing.reject(error);
      return error;
    },
  );
  await within('the subscription', standing.promise);
  return {
    entries,
    ended,
    bytes: (direction) =>
      Buffer.concat(entries.filter(({ dir }) => dir === numbers[direction]).map(({ rawData }) => rawData)),
    async end() {
      stop.abort();
      await ended;
    },
  };
}
