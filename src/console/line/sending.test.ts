import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LineStatus } from '../../shared/gen/http.ts';
import { localProblem, ProblemError } from '../problem.ts';
import {
  bytesOf,
  type Draft,
  fileFault,
  MAX_FILE_BYTES,
  outcomeText,
  pieceBytes,
  readSeconds,
  recalled,
  sendPieces,
} from './sending.ts';

const draft = (data: string, format: Draft['format'] = 'text', lineEnding: Draft['lineEnding'] = 'none'): Draft => ({
  data,
  format,
  lineEnding,
});

describe('what is typed to be sent', () => {
  it('is read as text with its line ending, or as hex without one', () => {
    const bytes = (of: Draft) => Object.values(bytesOf(of)).flatMap((one) => [...one]);
    assert.deepEqual(bytes(draft('A\\x00', 'text', 'crlf')), [65, 0, 13, 10]);
    assert.deepEqual(bytes(draft('A', 'text', 'lf')), [65, 10]);
    assert.deepEqual(bytes(draft('A', 'text', 'cr')), [65, 13]);
    assert.deepEqual(bytes(draft('41 42', 'hex', 'crlf')), [65, 66]);
    assert.deepEqual(bytes(draft('', 'text', 'crlf')), []);
    assert.ok('fault' in bytesOf(draft('\\q', 'text', 'crlf')));
  });

  it('is recalled, the newest first, and never over what is being typed', () => {
    const all = [draft('new'), draft('old')];
    assert.deepEqual(recalled(draft(''), all, 'ArrowUp'), all[0]);
    assert.deepEqual(recalled(draft('new'), all, 'ArrowUp'), all[1]);
    assert.deepEqual(recalled(draft('new'), all, 'ArrowDown'), draft(''));
    assert.equal(recalled(draft('typing'), all, 'ArrowUp'), undefined);
    assert.equal(recalled(draft(''), all, 'a'), undefined);
  });

  it('is repeated every 0.1 to 3,600 seconds', () => {
    assert.deepEqual(['0.1', '1', '2,5', ' 3600 '].map(readSeconds), [
      { seconds: 0.1 },
      { seconds: 1 },
      { seconds: 2.5 },
      { seconds: 3_600 },
    ]);
    for (const wrong of ['', '0', '0.09', '3600.1', '-1', '1e3', 'two'])
      assert.deepEqual(readSeconds(wrong), {
        fault: `Repeat every: "${wrong}" is not a number of seconds from 0.1 to 3,600`,
      });
  });
});

const statusOf = (baudRate: number, packetSize = 0, maxPayloadBytes = 65_536) =>
  ({ requested: { packetSize, baudRate }, effective: { baudRate }, maxPayloadBytes }) as unknown as LineStatus;

describe('a file to be sent', () => {
  it('is cut into packets of the fixed size, or of a second of the line, and never above the limit of the box', () => {
    assert.deepEqual(
      [statusOf(9_600), statusOf(300), statusOf(12_000_000), statusOf(9_600, 7), statusOf(9_600, 0, 20)].map(
        pieceBytes,
      ),
      [960, 64, 65_536, 7, 20],
    );
  });

  it('is bounded, not empty, and of whole packets', () => {
    assert.equal(fileFault(1, statusOf(9_600)), undefined);
    assert.equal(fileFault(MAX_FILE_BYTES, statusOf(9_600)), undefined);
    assert.match(fileFault(0, statusOf(9_600)) ?? '', /empty/);
    assert.match(fileFault(MAX_FILE_BYTES + 1, statusOf(9_600)) ?? '', /16,777,217 bytes.* at most 16,777,216/);
    assert.match(fileFault(15, statusOf(9_600, 7)) ?? '', /15 bytes.*packets of 7 bytes.* 1\.$/);
    assert.equal(fileFault(14, statusOf(9_600, 7)), undefined);
  });

  const file = Uint8Array.from({ length: 10 }, (_, at) => at);
  /** Fails at the packet that begins with that byte. */
  const line = (failsAt: number, status: number) => {
    const got: number[] = [];
    const send = async (piece: Uint8Array): Promise<void> => {
      if (piece[0] === failsAt) throw new ProblemError({ ...localProblem('no', 'why'), status });
      got.push(...piece);
    };
    return { got, send };
  };

  it('is sent whole and in order', async () => {
    const { got, send } = line(-1, 0);
    const seen: number[] = [];
    const outcome = await sendPieces(file, 4, send, (accepted) => seen.push(accepted) > 0);
    assert.deepEqual([got, seen], [[...file], [0, 4, 8]]);
    assert.equal(outcomeText(outcome, 10), 'All 10 bytes were accepted.');
  });

  it('ends at a packet that fails: exactly what was accepted is said, and what is unknown', async () => {
    const refused = line(4, 409);
    const outcome = await sendPieces(file, 4, refused.send, () => true);
    assert.deepEqual([refused.got, outcome.accepted, outcome.problem?.title], [[0, 1, 2, 3], 4, 'no']);
    assert.equal(
      outcomeText(outcome, 10),
      '4 of 10 bytes were accepted. The packet of bytes 5 to 8 was refused: nothing of it was sent. The bytes behind it were not sent.',
    );
    const unknown = await sendPieces(file, 4, line(8, 0).send, () => true);
    assert.equal(
      outcomeText(unknown, 10),
      '8 of 10 bytes were accepted. It is not known how much of bytes 9 to 10 was sent: the log may show it.',
    );
  });

  it('ends after the packet in flight when it is cancelled', async () => {
    const { got, send } = line(-1, 0);
    const outcome = await sendPieces(file, 4, send, (accepted) => accepted < 8);
    assert.equal(got.length, 8);
    assert.equal(outcomeText(outcome, 10), '8 of 10 bytes were accepted. The rest was not sent.');
  });
});
