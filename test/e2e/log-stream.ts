/** A reader of GET /api/v1/line/log, at a pace of its own. */
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { until, within } from '../../src/shared/base/wait.fixture.ts';

/** A line of it; its type determines the fields. */
export interface LogLine {
  readonly type: string;
  readonly [name: string]: unknown;
  readonly id?: number;
  readonly data?: string;
  readonly code?: string;
}

export interface LogReader {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** All that has come, in its order. */
  readonly lines: readonly LogLine[];
  readonly bytes: () => number;
  /** Of this type, so far. */
  of(type: string): readonly LogLine[];
  /** The service has ended it, or the connection is gone. */
  readonly hasEnded: () => boolean;
  /** Reads nothing until resume(). */
  pause(): void;
  resume(): void;
  /** Disconnects. */
  close(): void;
}

export interface LogPlace {
  readonly host?: string;
  readonly port?: number;
  readonly socketPath?: string;
}

/** Resolves with the head of the answer. `paused`: reads nothing yet. */
export async function readLog(
  place: LogPlace,
  query: string,
  { token, paused = false }: { readonly token?: string | undefined; readonly paused?: boolean } = {},
): Promise<LogReader> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const asked = request({ ...place, agent: false, path: `/api/v1/line/log?${query}`, headers });
  const response = await within(
    `the head of ${query}`,
    new Promise<IncomingMessage>((resolve, reject) => {
      asked.once('error', reject);
      asked.once('response', resolve);
      asked.end();
    }),
  );
  // A connection that is cut is an end like any other.
  asked.on('error', () => {});
  response.on('error', () => {});
  const lines: LogLine[] = [];
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const rest: string[] = [];
  let bytes = 0;
  let ended = false;
  const take = (chunk: Buffer): void => {
    bytes += chunk.length;
    for (const [i, part] of decoder.decode(chunk, { stream: true }).split('\n').entries()) {
      if (i > 0) lines.push(JSON.parse(rest.splice(0).join('')) as LogLine);
      rest.push(part);
    }
  };
  response.once('close', () => {
    ended = true;
  });
  if (paused) response.pause();
  response.on('data', take);
  if (paused) response.pause();
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    lines,
    bytes: () => bytes,
    of: (type) => lines.filter((line) => line.type === type),
    hasEnded: () => ended,
    pause: () => response.pause(),
    resume: () => response.resume(),
    close: () => asked.destroy(),
  };
}

/** Waits for so many lines of a type, and returns them. */
export async function lines(
  reader: LogReader,
  type: string,
  count: number,
  limitMs?: number,
): Promise<readonly LogLine[]> {
  return until(
    `${count} lines of type ${type}`,
    () => {
      const found = reader.of(type);
      if (found.length < count && reader.hasEnded())
        throw new Error(`it has ended: ${JSON.stringify(reader.lines.at(-1))}`);
      return found.length >= count && found;
    },
    limitMs,
  );
}
