/** A log with little room, with the compiled daemon: what a subscriber had not read and retention took is said, not hidden. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { serial } from '../../src/shared/proto/services.ts';
import { startDaemon } from './daemon.ts';
import { runCli } from './run-cli.ts';
import { tailLog } from './tail.ts';

/** A flag and the length of the message. */
const FRAME_HEAD_BYTES = 5;

interface Late {
  /** Notes of the entries that were read. */
  readonly notes: readonly string[];
  /** Reads to the end, and gives the status that it ended with. */
  read(): Promise<{ readonly code: number; readonly details: string }>;
  close(): void;
}

/**
 * A StreamLog of the whole log that nobody reads for a while. By HTTP/2 itself: grpc-js goes on reading into memory,
 * whether its user reads or not.
 */
async function lateSubscriber(socket: string): Promise<Late> {
  const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
  const headers = { ':method': 'POST', ':path': '/serial.SerialService/StreamLog' };
  const stream = session.request({ ...headers, 'content-type': 'application/grpc', te: 'trailers' });
  const request = serial.LogStreamRequest.encode({ fromStart: true }).finish();
  const frame = Buffer.alloc(FRAME_HEAD_BYTES);
  frame.writeUInt32BE(request.length, 1);
  stream.end(Buffer.concat([frame, request]));
  await within('the subscription', once(stream, 'response'));
  const notes: string[] = [];
  return {
    notes,
    async read() {
      const ended = within('the end of the stream', once(stream, 'trailers'));
      let held = Buffer.alloc(0);
      stream.on('data', (part: Buffer) => {
        held = Buffer.concat([held, part]);
        while (held.length >= FRAME_HEAD_BYTES && held.length >= FRAME_HEAD_BYTES + held.readUInt32BE(1)) {
          const end = FRAME_HEAD_BYTES + held.readUInt32BE(1);
          notes.push(serial.SerialLogEntry.decode(held.subarray(FRAME_HEAD_BYTES, end)).note);
          held = held.subarray(end);
        }
      });
      const [trailers] = (await ended) as [Record<string, string>];
      return { code: Number(trailers['grpc-status']), details: decodeURI(trailers['grpc-message'] ?? '') };
    },
    close: () => session.destroy(),
  };
}

test('a subscriber that read too late ends with DATA_LOSS and the number of entries lost; the others lose nothing', async () => {
  const daemon = await startDaemon({ config: { log: { max_bytes: 1_048_576, tail_bytes: 65_536 } } });
  const late = await lateSubscriber(daemon.socket);
  const prompt = await tailLog(daemon.client);
  const count = 160;
  for (let n = 0; n < count; n++) {
    // Random: nothing of it can be packed.
    await daemon.client.serial.logRaw({ rawData: randomBytes(65_536), note: `entry ${n}` });
  }
  await until('the removal of the oldest', async () => {
    const { log } = await daemon.client.line.getStatus({});
    return Number(log?.prunedEntries) > count / 2;
  });
  const error = await late.read();
  assert.equal(error.code, status.DATA_LOSS, error.details);
  const lost = Number(/\d+/.exec(error.details)?.[0]);
  assert.deepEqual(
    late.notes,
    Array.from({ length: late.notes.length }, (_, n) => `entry ${n}`),
    'what it got is whole and in order',
  );
  assert.ok(lost > 0 && late.notes.length + lost <= count, `${late.notes.length} read, ${lost} lost: ${error.details}`);
  await until('all at the one that reads', () => prompt.entries.length === count);
  assert.deepEqual(
    prompt.entries.map(({ note }) => note),
    Array.from({ length: count }, (_, n) => `entry ${n}`),
  );
  const fromStart = await tailLog(daemon.client, true);
  await until('what is left', () => fromStart.entries.at(-1)?.note === `entry ${count - 1}`);
  assert.ok(fromStart.entries.length < count / 2, 'the log keeps to its size');
  const oldest = count - fromStart.entries.length;
  assert.ok(late.notes.length + lost <= oldest, `nothing that is still there (from ${oldest} on) was called lost`);
  const { log } = await daemon.client.line.getStatus({});
  assert.ok(Number(log?.usedBytes) <= 1_048_576 + 2 * 65_536, `${log?.usedBytes.toString()} bytes used`);

  const env = { LINESIDE_SOCKET: daemon.socket };
  const gone = await runCli(['log', '--json', '--after', '1'], { env });
  assert.equal(gone.status, 7, 'the command line says so too');
  assert.match(gone.stderr, /--from-start/);
  await prompt.end();
  await fromStart.end();
  late.close();
  assert.equal(await daemon.stop(), 0);
});
