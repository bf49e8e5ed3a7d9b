// Runs alone: sets the time zone of its process.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { codePoint } from '../../shared/base/text.fixture.ts';
import { visibleText } from '../../shared/log-formats/byte-text.ts';
import * as logFormats from '../../shared/log-formats/log-formats.ts';
import { lineside } from '../../shared/proto/services.ts';
import { drivesTerminal } from '../drive.fixture.ts';
import { CliFailure, exitStatus, exitStatusTable, failureLine } from '../failure.ts';
import { parsePosition } from '../line/log.ts';
import { EntryPrinter, type LogItem, logItems, rowBytes } from './entries.ts';
import { asciiColumn, liveText, parseHex, plainHex, safeText, spacedHex, textBytes } from './hex.ts';
import { type DataForm, dataJson, loggedEntry } from './json.ts';
import {
  byteSize,
  exact,
  grouped,
  localTime,
  parseUint64,
  parseWhen,
  secondsAsMs,
  spanText,
  wholeNumber,
} from './numbers.ts';
import { cut, table } from './table.ts';

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');
process.env['TZ'] = 'UTC';
const entryJson = (value: lineside.v1.LogEntry, form: DataForm) =>
  logFormats.entryJson(loggedEntry(value), dataJson(value.entry.rawData, form));
const isUsage = (error: unknown): boolean => error instanceof CliFailure && error.status === exitStatus.usage;

describe('hex and text', () => {
  it('reads hex in the forms people paste', () => {
    for (const text of ['01 03 ff', '0103ff', '0x01,0x03,0xFF', '01:03:ff', ' 1 3 ff ', '01-03-FF']) {
      assert.equal(plainHex(parseHex(text)), '0103ff', text);
    }
    for (const text of ['0', '']) assert.equal(parseHex(text).length, text.length, text);
    for (const text of ['zz', '0x', '123', '01 0g']) assert.throws(() => parseHex(text), isUsage, text);
  });

  it('writes any bytes so that they can be read back', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (data) => {
        assert.deepEqual([...parseHex(spacedHex(data))], [...data]);
        assert.deepEqual([...textBytes(visibleText(data), true)], [...data]);
      }),
    );
  });

  it('never lets a control reach the terminal', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.string({ unit: codePoint }).map((text) => Buffer.from(text)),
        ),
        (data) => {
          assert.ok(!drivesTerminal(visibleText(data)));
          assert.ok(!drivesTerminal(liveText(data).replace(/[\r\n\t\b]/g, '')));
          assert.ok(!drivesTerminal(asciiColumn(data)));
          assert.ok(!drivesTerminal(safeText(Buffer.from(data).toString('utf8'))));
        },
      ),
    );
  });

  const shown: readonly [Buffer, string, string][] = [
    [latin1('OK\r\n'), 'OK\\r\\n', 'OK\r\n'],
    [latin1('\x1b]0;pwned\x07'), '\\x1b]0;pwned\\x07', '^[]0;pwned^G'],
    [latin1('\x9b31m'), '\\x9b31m', '\\x9b31m'],
    [Buffer.from('\u009b31m'), '\\xc2\\x9b31m', '\\xc2\\x9b31m'],
    [Buffer.from('Grün 温度'), 'Grün 温度', 'Grün 温度'],
    [Buffer.from('\u202eabc'), '\\xe2\\x80\\xaeabc', '\\xe2\\x80\\xaeabc'],
    [latin1('a\\b\x7f\x00'), 'a\\\\b\\x7f\\x00', 'a\\b^?^@'],
    [latin1('\xc3'), '\\xc3', '\\xc3'],
    [Buffer.from('\ufeffx'), '\\xef\\xbb\\xbfx', '\\xef\\xbb\\xbfx'],
  ];
  for (const [data, escaped, live] of shown) {
    it(`shows ${data.toString('hex')}`, () => {
      assert.equal(visibleText(data), escaped);
      assert.equal(liveText(data), live);
    });
  }

  it('understands escapes only when asked', () => {
    assert.equal(plainHex(textBytes('\\x02a\\r\\n\\t\\0\\e\\\\', true)), '02610d0a09001b5c');
    assert.equal(plainHex(textBytes('a\\r', false)), '615c72');
    for (const text of ['\\q', '\\x4', '\\']) assert.throws(() => textBytes(text, true), isUsage, text);
  });
});

describe('numbers and times', () => {
  it('keeps 64-bit numbers exact', () => {
    assert.equal(exact(parseUint64('18446744073709551615')), '18446744073709551615');
    assert.equal(exact(parseUint64('9007199254740992')), '9007199254740992');
    assert.equal(exact(parseUint64('9007199254740991')), 9_007_199_254_740_991);
    assert.equal(exact(Long.fromNumber(0)), 0);
    assert.equal(grouped(parseUint64('18446744073709551615')), '18,446,744,073,709,551,615');
    for (const text of ['18446744073709551616', '-1', '1.5', '', 'x'])
      assert.throws(() => parseUint64(text), isUsage, text);
  });

  it('reads times and ages', () => {
    const now = Date.UTC(2026, 0, 31, 12);
    const cases: readonly [string, number][] = [
      ['10m', now - 600_000],
      ['2h', now - 7_200_000],
      ['7d', now - 604_800_000],
      ['30s', now - 30_000],
      ['2026-01-31T12:00:00Z', now],
      ['2026-01-31t13:00:00.250+01:00', now + 250],
      ['2026-01-31 12:00:00Z', now],
      ['99999999d', 0],
    ];
    for (const [text, at] of cases) assert.equal(parseWhen(text, now), at, text);
    for (const text of [
      'yesterday',
      '2026-01-31',
      '2026-01-31T12:00:00',
      '10',
      '1969-01-01T00:00:00Z',
      '2026-02-31T99:00:00Z',
    ]) {
      assert.throws(() => parseWhen(text, now), isUsage, text);
    }
  });

  it('shows any 64-bit time, and refuses no clock', () => {
    assert.deepEqual(localTime(1_700_000_000_123), { date: '2023-11-14', time: '22:13:20.123' });
    const beyond = parseUint64('18446744073709551615');
    assert.deepEqual(localTime(beyond), { date: '', time: '18446744073709551615 ms' });
  });

  it('shows sizes and spans', () => {
    assert.deepEqual([0, 9999, 12_345, 1_073_741_824].map(byteSize), ['0 B', '9,999 B', '12.3 kB', '1.1 GB']);
    assert.deepEqual([250, 12_000, 185_000, 7_620_000, 356_400_000].map(spanText), [
      '250 ms',
      '12 s',
      '3 min 5 s',
      '2 h 7 min',
      '4 d 3 h',
    ]);
  });

  it('refuses numbers out of range', () => {
    assert.equal(wholeNumber(1, 9)('9'), 9);
    assert.equal(secondsAsMs(10)('0.25'), 250);
    for (const text of ['0', '0.0', '0.09', '11']) assert.throws(() => secondsAsMs(10, 0.1)(text), isUsage, text);
    assert.equal(secondsAsMs(10, 0.1)('0.1'), 100);
    for (const text of ['0', '10', 'x', '-1', '1e1', '']) assert.throws(() => wholeNumber(1, 9)(text), isUsage, text);
    for (const text of ['11', 'x', '-1', '']) assert.throws(() => secondsAsMs(10)(text), isUsage, text);
  });
});

const entry = (
  id: number,
  dir: 0 | 1,
  data: string,
  note = '',
  timestamp: Long | number = 1_700_000_000_000 + id,
  clock = {},
): lineside.v1.LogEntry => {
  const stamp = typeof timestamp === 'number' ? Long.fromNumber(timestamp, true) : timestamp;
  const rawData = Buffer.from(data, 'latin1');
  return lineside.v1.LogEntry.fromObject({
    id: Long.fromNumber(id, true),
    entry: { dir, timestamp: stamp, rawData, note },
    ...clock,
  });
};
const gap = (first: number, last: number): lineside.v1.LogGap =>
  lineside.v1.LogGap.create({
    firstId: Long.fromNumber(first, true),
    lastId: Long.fromNumber(last, true),
    entries: Long.fromNumber(last - first + 1, true),
    bytes: Long.fromNumber(4567, true),
    fromMs: Long.fromNumber(1_700_000_000_000, true),
    toMs: Long.fromNumber(1_700_000_300_000, true),
    reason: 'disk full',
  });
const look = { view: 'both', width: 0, colour: false, ids: false } as const;

describe('log entries', () => {
  it('shows hex and text beside each other, and the note below', () => {
    const printer = new EntryPrinter(look);
    assert.equal(
      printer.item({ kind: 'entry', value: entry(1, 1, 'ABCDEFGHIJKLMNOPQ\r', 'polled') }),
      [
        '2023-11-14 22:13:20.001 RX 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50 |ABCDEFGHIJKLMNOP|',
        '                           51 0d                                           |Q.|',
        '                           # polled',
        '',
      ].join('\n'),
    );
  });

  it('fits a terminal of 80 columns, with the day once', () => {
    const printer = new EntryPrinter({ ...look, width: 80 });
    const text = [1, 2].map((id) => printer.item({ kind: 'entry', value: entry(id, 0, 'x'.repeat(40)) })).join('');
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    assert.equal(text.match(/-- 2023-11-14 --/g)?.length, 1);
    assert.deepEqual(
      [0, 200, 80, 40, 10].map((width) => rowBytes('both', width)),
      [16, 16, 12, 4, 4],
    );
    assert.equal(rowBytes('hex', 80), 16);
  });

  it('shows text, notes without data, ids, colour and times no calendar holds', () => {
    const item = (value: lineside.v1.LogEntry): LogItem => ({ kind: 'entry', value });
    const text = new EntryPrinter({ ...look, view: 'text', ids: true });
    assert.equal(text.item(item(entry(1234, 0, 'AT\r', ''))), '2023-11-14 22:13:21.234 1234 TX AT\\r\n');
    assert.equal(text.item(item(entry(1, 0, '', 'a\x1b[31m'))), '2023-11-14 22:13:20.001 1 TX # a\\x1b[31m\n');
    assert.equal(text.item(item(entry(1, 1, ''))), '2023-11-14 22:13:20.001 1 RX #\n');
    assert.equal(text.item(item(entry(1, 1, 'x', '', Long.MAX_UNSIGNED_VALUE))), '18446744073709551615 ms 1 RX x\n');
    const coloured = new EntryPrinter({ ...look, colour: true }).item(item(entry(1, 1, 'x')));
    assert.ok(coloured.includes('\x1b[32mRX\x1b[0m'));
  });

  it('shows gaps as a clear line, in their place', () => {
    const batch = lineside.v1.LogBatch.fromObject({
      entries: [entry(1, 0, 'a'), entry(200, 1, 'b')],
      gaps: [gap(2, 124), gap(300, 301)],
    });
    const kinds = [...logItems(batch)].map(({ kind }) => kind);
    assert.deepEqual(kinds, ['entry', 'gap', 'entry', 'gap']);
    assert.equal(
      new EntryPrinter(look).item({ kind: 'gap', value: gap(2, 124) }),
      '-- 123 entries (4,567 bytes) not stored: disk full, 2023-11-14 22:13:20.000 to 22:18:20.000 --\n',
    );
  });

  it('marks times that were stamped before the clock was set, and gives scripts the fields', () => {
    const { EntryClock } = lineside.v1;
    const uncorrected = { uncorrectedTimestampMs: Long.fromNumber(1_600_000_000_001, true) };
    const cases: readonly [object, mark: string, fields: object][] = [
      [{ clock: EntryClock.ENTRY_CLOCK_UNSPECIFIED }, ' ', {}],
      [{ clock: EntryClock.ENTRY_CLOCK_KNOWN }, ' ', { clock: 'known' }],
      [{ clock: EntryClock.ENTRY_CLOCK_NOT_SET }, '?', { clock: 'notSet' }],
      [
        { clock: EntryClock.ENTRY_CLOCK_CORRECTED, ...uncorrected },
        '~',
        { clock: 'corrected', uncorrectedTimestampMs: 1_600_000_000_001 },
      ],
    ];
    const printer = new EntryPrinter({ ...look, view: 'hex' });
    for (const [clock, mark, fields] of cases) {
      const value = entry(1, 1, 'a', '', 1_700_000_000_001, clock);
      assert.equal(printer.item({ kind: 'entry', value }), `2023-11-14 22:13:20.001${mark}RX 61\n`);
      const plain = { id: 1, time: '2023-11-14T22:13:20.001Z', timestampMs: 1_700_000_000_001, dir: 'rx', hex: '61' };
      assert.deepEqual(entryJson(value, 'hex'), { ...plain, ...fields });
    }
  });

  it('gives scripts every field', () => {
    assert.deepEqual(entryJson(entry(7, 1, '\x01\xff', 'n'), 'hex'), {
      id: 7,
      time: '2023-11-14T22:13:20.007Z',
      timestampMs: 1_700_000_000_007,
      dir: 'rx',
      hex: '01ff',
      note: 'n',
    });
    const huge = entry(1, 0, 'a', '', Long.MAX_UNSIGNED_VALUE);
    huge.id = Long.fromString('9007199254740993', true);
    assert.deepEqual(entryJson(huge, 'base64'), {
      id: '9007199254740993',
      time: null,
      timestampMs: '18446744073709551615',
      dir: 'tx',
      base64: 'YQ==',
    });
  });
});

describe('tables, failures and positions', () => {
  it('cuts to the width', () => {
    assert.equal(table(['A', 'B'], [['1', 'long text']], 8), 'A  B\n1  long…\n');
    assert.equal(cut('abc', 0), 'abc');
  });

  it('says what failed, why, and what to do next', () => {
    const failure = new CliFailure('refused', 'X', 'it broke.', { next: 'Correct it.' });
    assert.equal(failureLine(failure.during('cannot sing')), 'lineside: cannot sing: it broke. Correct it.\n');
    assert.equal(failureLine(failure.during('a').during('b')), 'lineside: a: it broke. Correct it.\n');
    const many = new CliFailure('refused', 'X', '2 faults', { reasons: ['line 1: a', 'line 2: b'] });
    assert.equal(failureLine(many.during('cannot')), 'lineside: cannot: 2 faults.\n  line 1: a\n  line 2: b\n');
    const one = new CliFailure('refused', 'X', 'refused: line 1: a', { reasons: ['line 1: a'] });
    assert.equal(failureLine(one), 'lineside: refused: line 1: a.\n');
    for (const number of Object.values(exitStatus))
      assert.match(exitStatusTable(), new RegExp(`^ {2}${number} {2}\\S`, 'm'));
  });

  it('refuses a position file that is none', () => {
    assert.equal(
      exact(parsePosition('{"afterId":"18446744073709551615","logId":"l"}', 'f').afterId),
      '18446744073709551615',
    );
    for (const text of ['', '{}', '{"afterId":-1,"logId":""}', '{"afterId":1}', '[]', 'null']) {
      assert.throws(() => parsePosition(text, 'f'), /holds no position/, text);
    }
  });
});
