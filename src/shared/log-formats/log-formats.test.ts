import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { utcTime } from '../base/instant.ts';
import { exportedShare, type Logged, logWriter } from './log-formats.ts';

const items: readonly Logged[] = [
  {
    kind: 'entry',
    id: 1,
    dir: 'rx',
    timestampMs: Date.UTC(2026, 0, 31, 11, 0, 0, 7),
    clock: 'corrected',
    uncorrectedTimestampMs: 0,
    bytes: new TextEncoder().encode('grün\r\n'),
    note: 'by\x1b[31m hand',
  },
  { kind: 'gap', firstId: 2, id: 1_001, entries: 1_000, bytes: 1, fromMs: 0, toMs: 1, reason: '' },
  {
    kind: 'entry',
    id: '18446744073709551615',
    dir: 'tx',
    timestampMs: '18446744073709551615',
    clock: 'unknown',
    bytes: Uint8Array.of(0xff),
    note: '',
  },
];
const hex = (bytes: Uint8Array) => ({ hex: Buffer.from(bytes).toString('hex') });
const written = (format: Parameters<typeof logWriter>[0]) => logWriter(format, hex).part(items);

describe('the formats of an export', () => {
  it('text: time with its zone, mark, direction, text, note; nothing that drives a terminal; what is missing', () => {
    const zone = process.env['TZ'];
    process.env['TZ'] = 'Asia/Kathmandu';
    const lines = String(written('text')).split('\n');
    process.env['TZ'] = 'America/St_Johns';
    const west = String(written('text'));
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
    assert.deepEqual(lines, [
      '2026-01-31T16:45:00.007+05:45~RX grün\\r\\n # by\\x1b[31m hand',
      '-- 1,000 entries (1 byte) not stored: 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:00.001Z --',
      '18446744073709551615 ms TX \\xff',
      '',
    ]);
    assert.match(west, /^2026-01-31T07:30:00\.007-03:30~RX /);
  });

  it('JSON lines: 64-bit numbers exact, a gap in its place', () => {
    const lines = String(written('jsonl')).trimEnd().split('\n');
    assert.ok(lines[0]?.includes('by\\u001b[31m hand'));
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      [
        {
          id: 1,
          time: '2026-01-31T11:00:00.007Z',
          timestampMs: 1_769_857_200_007,
          clock: 'corrected',
          uncorrectedTimestampMs: 0,
          dir: 'rx',
          hex: '6772c3bc6e0d0a',
          note: 'by\x1b[31m hand',
        },
        {
          gap: {
            firstId: 2,
            lastId: 1_001,
            entries: 1_000,
            bytes: 1,
            from: '1970-01-01T00:00:00.000Z',
            to: '1970-01-01T00:00:00.001Z',
            reason: '',
          },
        },
        { id: '18446744073709551615', time: null, timestampMs: '18446744073709551615', dir: 'tx', hex: 'ff' },
      ],
    );
    assert.equal(utcTime(8_640_000_000_000_001), null);
  });

  it('raw: the bytes and nothing else', () => {
    assert.deepEqual(Buffer.from(written('raw') as Uint8Array), Buffer.from('6772c3bc6e0d0aff', 'hex'));
  });
});

describe('the progress of an export', () => {
  it('is by ids, or by time where its end is a time before the end of the log', () => {
    const first = { id: 100, ms: 1_000 };
    assert.equal(exportedShare(first, { id: 150, ms: 2_000 }, 200, 0), 0.5);
    assert.equal(exportedShare(first, { id: 150, ms: 2_000 }, 10_100, 2_000), 1);
    assert.equal(exportedShare(first, { id: 200, ms: 2_000 }, 200, 1_000_000), 1);
    // The clock was set back; an empty log; an entry that came after the start.
    assert.equal(exportedShare(first, { id: 100, ms: 0 }, 200, 2_000), 0);
    assert.equal(exportedShare(first, first, 0, 0), 0);
    assert.equal(exportedShare(first, { id: 201, ms: 2_000 }, 200, 0), 1);
  });
});
