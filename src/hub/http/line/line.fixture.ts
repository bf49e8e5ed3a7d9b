/** The HTTP interface with a line behind it: the real gRPC services over a Unix socket, on a line and a log in memory. */
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type LogReader, readLog } from '../../../../test/e2e/log-stream.ts';
import { type FakeLine, type FakeLog, startTestServer as startLine } from '../../../../test/grpc/fakes.ts';
import { connectLine } from '../../../shared/line-client/line-client.ts';
import { startTestServer, type TestOptions, type TestServer } from '../server.fixture.ts';

export interface LineServer extends TestServer {
  readonly line: FakeLine;
  readonly log: FakeLog;
  /** The line's process ends. */
  readonly stopLine: () => Promise<void>;
  /** With the token of `who`; it is closed at the end of the test. */
  readonly read: (query: string, who?: string, paused?: boolean) => Promise<LogReader>;
}

export async function startWithLine(t: TestContext, options: TestOptions = {}): Promise<LineServer> {
  const line = await startLine({ grpc: { listen: ['unix:grpc.sock'] } });
  t.after(() => line[Symbol.asyncDispose]());
  const client = connectLine(join(line.config.data.runtimeDir, 'grpc.sock'));
  const http = await startTestServer(t, { ...options, parts: { line: client, ...options.parts } });
  t.after(() => client.close());
  const read = async (query: string, who = 'viewer', paused = false): Promise<LogReader> => {
    const place = { host: '127.0.0.1', port: http.port };
    const reader = await readLog(place, query, { token: http.tokens[who], paused });
    t.after(() => reader.close());
    return reader;
  };
  return { ...http, line: line.line, log: line.log, stopLine: () => line.servers.stop(), read };
}
