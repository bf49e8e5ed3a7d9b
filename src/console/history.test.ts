import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LineHistory } from '../shared/gen/http.ts';
import {
  chartsOf,
  isEmpty,
  marksOf,
  momentText,
  summaryOf,
  timeLabels,
  timesOf,
  valueRows,
  zoomIn,
  zoomTo,
} from './history.ts';
import type { LineEvent } from './rows.ts';

const none = [null, null, null];
/** Three steps of a minute: known, silent without an open port, unknown. */
const history: LineHistory = {
  fromMs: 60_000,
  untilMs: 200_000,
  nowMs: 200_000,
  stepS: 60,
  firstMs: 60_000,
  isClockVerified: true,
  fault: '',
  gaps: [],
  upS: [60, 60, 0],
  lineS: [50, 60, null],
  portOpenS: [50, 0, null],
  rxBytes: [500, 0, null],
  txBytes: [50, 0, null],
  rxDroppedPackets: [0, 0, null],
  errors: [1, 0, null],
  reconnects: [1, 0, null],
  temperatureMinCelsius: none,
  temperatureMeanCelsius: none,
  temperatureMaxCelsius: none,
  cardWrittenBytes: none,
};

describe('charts of the history', () => {
  it('have bytes per second of the time that is known, and no line while no port was open', () => {
    const [throughput, errors] = chartsOf(history);
    assert.deepEqual(
      throughput?.series.map(({ values }) => values),
      [
        [10, null, null],
        [1, null, null],
      ],
    );
    assert.deepEqual(errors?.series[0]?.values, [1, 0, null]);
  });

  it('are none of what the box does not measure', () => {
    assert.equal(chartsOf(history).length, 3);
    const warm = { temperatureMinCelsius: [40, null, null], temperatureMaxCelsius: [42, null, null] };
    const [, , , heat] = chartsOf({ ...history, ...warm });
    assert.match(heat?.title ?? '', /°C/);
    assert.equal(heat?.format(41.26), '41.3 °C');
  });

  it('have their points in the middle of each step, of the running one in the middle of what there is', () => {
    assert.deepEqual(timesOf(history), [90, 150, 190]);
  });

  it('have the day at an axis where one begins', () => {
    const midnight = new Date(2026, 10, 22).getTime() / 1_000;
    assert.deepEqual(timeLabels([midnight - 3_600, midnight, midnight + 3_600]), ['23:00', '11-22', '01:00']);
    assert.deepEqual(timeLabels([midnight, midnight + 2 * 86_400]), ['11-22', '11-24']);
  });
});

describe('a part of the time', () => {
  it('is whole minutes around what was selected, and at least five', () => {
    assert.deepEqual(zoomTo(61_000, 599_000), { sinceMs: 60_000, untilMs: 600_000 });
    assert.deepEqual(zoomTo(600_000, 600_000), { sinceMs: 420_000, untilMs: 780_000 });
  });

  it('of an address is taken only if the box would answer it', () => {
    assert.deepEqual(zoomIn(60_000, 600_000), { sinceMs: 60_000, untilMs: 600_000 });
    const wrong = [
      [Number('x'), 600_000],
      [0, 600_000],
      [600_000, 600_000],
      [1.5, 600_000],
      [1, 8.65e15],
      [1, 367 * 86_400_000],
    ] as const;
    for (const [since, until] of wrong) assert.equal(zoomIn(since, until), undefined, `${since} to ${until}`);
  });
});

describe('events of the line', () => {
  const event = (id: number, timestampMs: number, kind: LineEvent['kind']): LineEvent => ({
    id,
    afterEntryId: 0,
    timestampMs,
    clock: 'known',
    kind,
    by: '',
    detail: '/dev/ttyUSB0',
  });

  it('are marked in the time that is shown, those of exclusive use are not', () => {
    const all = [
      event(1, 59_999, 'opened'),
      event(2, 60_000, 'opened'),
      event(3, 100_000, 'holdBegun'),
      event(4, 150_000, 'lost'),
      event(5, 200_000, 'back'),
    ];
    assert.deepEqual(marksOf(all, history), [
      { id: 2, atMs: 60_000, color: '--good', words: 'Port opened: /dev/ttyUSB0' },
      { id: 4, atMs: 150_000, color: '--bad', words: 'Port lost: /dev/ttyUSB0' },
    ]);
  });
});

describe('the values as a table', () => {
  it('have their units, the newest first, and no row of a time of which nothing is known', () => {
    const warm = { temperatureMaxCelsius: [42.5, null, null], cardWrittenBytes: [2_048, 0, null] };
    const of = { ...history, ...warm };
    assert.deepEqual(valueRows(of, chartsOf(of)), [
      {
        time: momentText(120_000),
        values: ['unknown', 'unknown', '0', '0', '0', 'unknown', 'unknown', 'unknown', '0 B'],
      },
      {
        time: momentText(60_000),
        values: ['10 B/s', '1 B/s', '1', '1', '0', '42.5 °C', 'unknown', 'unknown', '2.00 KiB'],
      },
    ]);
  });
});

describe('the history in words', () => {
  it('sums up what is known', () => {
    assert.match(summaryOf(history), /received 500 B, sent 50 B, errors: 1\. The port was open for 50 s, lost: 1\./);
  });

  it('says why there is nothing', () => {
    const empty = { ...history, upS: [0, 0, 0] };
    assert.ok(isEmpty(empty));
    assert.match(summaryOf({ ...empty, firstMs: null }), /no history yet/);
    assert.match(summaryOf({ ...empty, firstMs: 500_000 }), /No data for this time.*begins at/);
    const gap = { fromMs: 0, untilMs: 300_000, reason: 'boxOff' } as const;
    assert.match(summaryOf({ ...empty, gaps: [gap] }), /No data for this time.*The box was off/);
  });
});
