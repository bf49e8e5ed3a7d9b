import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { logStates, parities, portStates, stopBits } from '../shared/proto/line-status.ts';
import { lineside, serial } from '../shared/proto/services.ts';
import {
  chosenEndpoint,
  type Face,
  hubFace,
  lineFace,
  type Profile,
  parseHost,
  sourceOf,
} from './connection/endpoint.ts';
import { drivesTerminal } from './drive.fixture.ts';
import { CliFailure, exitStatus, exitStatusTable, failureLine } from './failure.ts';
import { parsePosition } from './line/log.ts';
import { openConfig } from './line/port.ts';
import { parseSettings, settingsText } from './line/settings.ts';
import { statusText } from './line/status.ts';
import { EntryPrinter, type LogItem, logItems, rowBytes } from './output/entries.ts';
import {
  asciiColumn,
  escapedText,
  liveText,
  parseHex,
  plainHex,
  safeText,
  spacedHex,
  textBytes,
} from './output/hex.ts';
import { entryJson, statusJson } from './output/json.ts';
import {
  byteSize,
  exact,
  grouped,
  localTime,
  parseUint64,
  parseWhen,
  secondsAsMs,
  spanText,
  utcTime,
  wholeNumber,
} from './output/numbers.ts';
import { cut, table } from './output/table.ts';

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');
process.env['TZ'] = 'UTC';
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
        assert.deepEqual([...textBytes(escapedText(data), true)], [...data]);
      }),
    );
  });

  it('never lets a control reach the terminal', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
        ),
        (data) => {
          assert.ok(!drivesTerminal(escapedText(data)));
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
      assert.equal(escapedText(data), escaped);
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
    assert.equal(utcTime(beyond), null);
    assert.equal(utcTime(0), '1970-01-01T00:00:00.000Z');
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

describe('line settings', () => {
  it('reads and writes the short form', () => {
    assert.deepEqual(parseSettings('115200,8N1'), { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0 });
    assert.deepEqual(parseSettings('300/5m1.5'), { baudRate: 300, dataBits: 5, parity: 3, stopBits: 1 });
    assert.deepEqual(parseSettings('9600'), { baudRate: 9600 });
    const wrong = {
      fast: 'speed',
      '': 'speed',
      '9600,9N1': 'not 9',
      '9600,8X1': 'not X',
      '9600,8N3': 'not 3',
      '9600,8N1.': 'not 1.',
    };
    for (const [text, named] of Object.entries({ ...wrong, '96000000000': '96000000000 baud' })) {
      assert.throws(
        () => parseSettings(text),
        (error) => isUsage(error) && error instanceof CliFailure && error.message.includes(named),
        text,
      );
    }
    assert.equal(settingsText({ baudRate: 9600, dataBits: 7, parity: 4, stopBits: 1 }), '9600,7S1.5');
    assert.equal(openConfig('/dev/x', '9600,7E1', { parity: 'odd', packetSize: 0, flowControl: 'none' }).parity, 2);
  });

  it('numbers parities, stop bits and states as the contract does', () => {
    const { PortState, LogState } = lineside.v1;
    for (const [names, numbers, prefix] of [
      [parities, serial.Parity, 'PARITY'],
      [portStates, PortState, 'PORT_STATE'],
      [logStates, LogState, 'LOG_STATE'],
    ] as const)
      for (const [at, name] of names.entries())
        assert.equal(numbers[at], `${prefix}_${name.toUpperCase().replace('UNKNOWN', 'UNSPECIFIED')}`);
    const bits = stopBits.map((_, at) => serial.StopBits[at]);
    assert.deepEqual(bits, ['STOPBITS_ONE', 'STOPBITS_ONE_POINT_FIVE', 'STOPBITS_TWO']);
  });
});

type Options = Parameters<typeof chosenEndpoint>[0];

function endpointOf(options: Options, env: Record<string, string>, face: Face, usual?: Profile) {
  const find = (name: string | undefined): Profile | undefined => (name === 'p' ? profile : usual);
  return chosenEndpoint(options, sourceOf(options, env, face, find), face);
}
const profile: Profile = { host: 'press', fingerprint: 'ab'.repeat(32), tokenFile: 'pt', httpPort: 99 };

describe('the address of the service', () => {
  const cases: readonly [Options, Record<string, string>, string | undefined][] = [
    [
      { profile: 'p' },
      { LINESIDE_HOST: 'x', LINESIDE_TOKEN_FILE: 't', LINESIDE_SOCKET: '/b' },
      'tls press 50051 token pt',
    ],
    [{ profile: 'p', host: '127.0.0.1' }, {}, 'tls 127.0.0.1 50051 token pt'],
    [{ profile: 'p', tokenFile: 'own' }, {}, 'tls press 50051 token own'],
    [{ profile: 'p', plaintext: true }, {}, 'plain press 50051'],
    [{}, { LINESIDE_PROFILE: 'p', LINESIDE_TOKEN_FILE: 't' }, 'tls press 50051 token pt'],
    [{ host: 'box' }, { LINESIDE_PROFILE: 'p' }, 'tls box 50051'],
    [{ config: 'f' }, { LINESIDE_PROFILE: 'p' }, undefined],
    [{}, {}, undefined],
    [{ socket: '/a' }, { LINESIDE_HOST: 'x' }, 'unix /a'],
    [{}, { LINESIDE_SOCKET: '/b' }, 'unix /b'],
    [{ config: 'f' }, { LINESIDE_SOCKET: '/b', LINESIDE_HOST: 'x' }, undefined],
    [{}, { LINESIDE_HOST: 'box:1', LINESIDE_SOCKET: '' }, 'tls box 1'],
    [{ host: 'box' }, { LINESIDE_SOCKET: '/b' }, 'tls box 50051'],
    [{ host: '127.0.0.1' }, {}, 'plain 127.0.0.1 50051'],
    [{ host: '[::1]:7', tls: true }, {}, 'tls ::1 7'],
    [{ host: 'localhost', ca: 'ca.pem' }, {}, 'tls localhost 50051'],
    [{ host: 'box', plaintext: true }, { LINESIDE_TOKEN_FILE: 't' }, 'plain box 50051'],
    [{ host: 'box', tokenFile: 't' }, {}, 'tls box 50051 token t'],
    [{ host: 'box' }, { LINESIDE_TOKEN_FILE: 't' }, 'tls box 50051 token t'],
    [{ host: '127.0.0.1', fingerprint: 'ab'.repeat(32) }, {}, 'tls 127.0.0.1 50051'],
    [{ host: '127.0.0.1' }, { LINESIDE_FINGERPRINT: 'ab'.repeat(32) }, 'plain 127.0.0.1 50051'],
  ];
  for (const [options, env, expected] of cases) {
    it(`${JSON.stringify(options)} with ${JSON.stringify(env)}`, () => {
      const found = endpointOf(options, env, lineFace);
      const shown =
        found === undefined
          ? undefined
          : found.kind === 'unix'
            ? `unix ${found.path}`
            : `${found.tls === undefined ? 'plain' : 'tls'} ${found.host} ${found.port}${found.tokenFile === undefined ? '' : ` token ${found.tokenFile}`}`;
      assert.equal(shown, expected);
    });
  }

  it('refuses what contradicts itself or would show a token', () => {
    for (const options of [
      { socket: '/a', host: 'b' },
      { host: 'box', plaintext: true, tls: true },
      { host: 'box', plaintext: true, tokenFile: 't' },
      { host: 'box', cert: 'c' },
      { profile: 'p', socket: '/a' },
      { profile: 'p', config: 'f' },
      { profile: 'p', cert: 'c' },
      { tokenFile: 't' },
      { host: 'a b' },
      { host: 'box:0' },
      { host: 'box:70000' },
    ]) {
      assert.throws(() => endpointOf(options, {}, lineFace), isUsage, JSON.stringify(options));
    }
    assert.throws(() => endpointOf({}, { LINESIDE_HOST: 'a', LINESIDE_SOCKET: '/b' }, lineFace), isUsage);
    // The socket of one interface means this machine for both: the default profile is not asked.
    assert.equal(endpointOf({}, { LINESIDE_HTTP_SOCKET: '/h' }, lineFace, profile), undefined);
    const usual = endpointOf({}, {}, hubFace, profile);
    assert.deepEqual(usual?.kind === 'tcp' && [usual.host, usual.port, usual.tokenFile], ['press', 99, 'pt']);
    assert.throws(() => endpointOf({}, { LINESIDE_HOST: 'a', LINESIDE_PROFILE: 'p' }, lineFace), isUsage);
    assert.deepEqual(parseHost('fe80::1', 50_051), { host: 'fe80::1', port: 50_051 });
    const box = { LINESIDE_HOST: '127.0.0.1:50052', LINESIDE_SOCKET: '/line' };
    const hub = endpointOf({}, box, hubFace);
    assert.deepEqual(hub, { kind: 'tcp', host: '127.0.0.1', port: 8080, tls: undefined, tokenFile: undefined });
    const ports = ['box', 'box:9', '[2001:db8::1]'].map((host) => {
      const [given, variable] = [endpointOf({ host }, {}, hubFace), endpointOf({}, { LINESIDE_HOST: host }, hubFace)];
      return [given, variable].map((found) => (found?.kind === 'tcp' ? found.port : 0));
    });
    assert.deepEqual(ports, [
      [8443, 8443],
      [9, 8443],
      [8443, 8443],
    ]);
    assert.deepEqual(endpointOf({}, { LINESIDE_HTTP_SOCKET: '/hub' }, hubFace), { kind: 'unix', path: '/hub' });
    assert.throws(() => endpointOf({}, { LINESIDE_HOST: 'a', LINESIDE_HTTP_SOCKET: '/b' }, hubFace), isUsage);
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

describe('the status', () => {
  const decoded = (status: Record<string, unknown>): lineside.v1.LineStatus =>
    lineside.v1.LineStatus.decode(lineside.v1.LineStatus.encode(lineside.v1.LineStatus.fromObject(status)).finish());
  const full = decoded({
    portState: 3,
    portStateAgeMs: Long.fromNumber(185_000),
    requested: { portName: '/dev/serial/by-id/x', baudRate: 9600, dataBits: 8, packetSize: 8 },
    effective: { baudRate: 9615, dataBits: 8, driver: 'ftdi_sio' },
    currentPortName: '/dev/ttyUSB1',
    counters: {
      rxBytes: Long.fromNumber(1234),
      rxChunks: Long.fromNumber(1),
      losses: Long.fromNumber(1),
      reopens: Long.fromNumber(1),
    },
    kernel: { frame: 2 },
    log: {
      state: 2,
      error: 'no space left',
      firstId: Long.fromNumber(1001),
      lastId: Long.fromNumber(2345),
      lostEntries: Long.fromNumber(123),
      gaps: [gap(2, 124)],
    },
    version: '1.2.3',
    configurationRefused: 'log.commit_ms, line 7',
  });

  it('says all that matters, in words', () => {
    const text = statusText(full, 0);
    for (const part of [
      /^Port +open \/dev\/serial\/by-id\/x \(now \/dev\/ttyUSB1\), for 3 min 5 s$/m,
      /^Settings +9600,8N1, packets of 8 bytes \(the kernel says 9615,8N1\), driver ftdi_sio$/m,
      /^Received +1,234 bytes in 1 chunk, /m,
      /^Losses +the port was lost 1 time and came back 1 time$/m,
      /^Driver +frame 2, overrun 0/m,
      /^Log +NOT BEING KEPT, ids 1001 to 2345 \(at most 1,345 entries\)/m,
      /123 entries \(4,567 bytes\) not stored: disk full/,
      /^Configuration +REFUSED at the last reload, the one of before is in use: log\.commit_ms, line 7$/m,
      /^Service +lineside 1\.2\.3/m,
    ]) {
      assert.match(text, part);
    }
    for (const line of statusText(full, 60).trimEnd().split('\n')) assert.ok(line.length <= 60, line);
  });

  it('says that the clock is not set, or what became of the times before', () => {
    const { CLOCK_STATE_SET, CLOCK_STATE_NOT_SET } = lineside.v1.ClockState;
    assert.match(statusText(decoded({ clock: { state: CLOCK_STATE_NOT_SET } }), 0), /^Clock +NOT SET since/m);
    const corrected = decoded({ clock: { state: CLOCK_STATE_SET, correctedByMs: Long.fromNumber(-266_400_000) } });
    assert.match(statusText(corrected, 0), /^Clock +set; earlier .* by -3 d 2 h$/m);
    assert.deepEqual(statusJson(corrected, true)['clock'], { state: 'set', correctedByMs: -266_400_000 });
    assert.doesNotMatch(statusText(decoded({ clock: { state: CLOCK_STATE_SET } }), 0), /Clock/);
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
