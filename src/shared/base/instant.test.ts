import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FAR_FUTURE, instantAfter, instantOfMs, instantOfUs, laterOf, parseInstant, usOfInstant } from './instant.ts';

const lastUs = usOfInstant(FAR_FUTURE);
const anyUs = fc.bigInt({ min: usOfInstant('0001-01-01T00:00:00+00:00'), max: lastUs });

describe('an instant', () => {
  it('is written in UTC with a numeric offset, and microseconds where there are any', () => {
    assert.equal(instantOfUs(0n), '1970-01-01T00:00:00+00:00');
    assert.equal(instantOfUs(1n), '1970-01-01T00:00:00.000001+00:00');
    assert.equal(instantOfUs(-1n), '1969-12-31T23:59:59.999999+00:00');
    assert.equal(instantOfMs(1_772_357_400_250), '2026-03-01T09:30:00.250000+00:00');
    assert.equal(instantOfUs(lastUs), FAR_FUTURE);
  });

  it('sorts as text in the order of time', () => {
    fc.assert(
      fc.property(anyUs, anyUs, (a, b) => {
        const [x, y] = [instantOfUs(a), instantOfUs(b)];
        assert.equal(Math.sign(x < y ? -1 : x > y ? 1 : 0), a < b ? -1 : a > b ? 1 : 0);
        assert.equal(laterOf(x, y), a > b ? x : y);
      }),
    );
  });

  it('is read back exactly', () => {
    fc.assert(
      fc.property(anyUs, (us) => {
        assert.equal(usOfInstant(instantOfUs(us)), us);
        assert.equal(parseInstant(instantOfUs(us)), instantOfUs(us));
      }),
    );
  });

  const read: readonly (readonly [string, string | undefined])[] = [
    ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00+00:00'],
    ['2026-03-01t09:30:00z', '2026-03-01T09:30:00+00:00'],
    ['2026-03-01T09:30:00.5+05:30', '2026-03-01T04:00:00.500000+00:00'],
    ['2026-03-01T00:30:00-23:59', '2026-03-02T00:29:00+00:00'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00+00:00'],
    ['2025-02-29T00:00:00Z', undefined],
    ['2026-02-30T00:00:00Z', undefined],
    ['2026-04-31T00:00:00Z', undefined],
    ['2026-13-01T00:00:00Z', undefined],
    ['2026-00-10T00:00:00Z', undefined],
    ['2026-03-01T24:00:00Z', undefined],
    ['2026-03-01T23:60:00Z', undefined],
    ['2026-12-31T23:59:60Z', undefined],
    ['2026-03-01T09:30:00+24:00', undefined],
    ['2026-03-01T09:30:00+05:60', undefined],
    ['2026-03-01T09:30:00.1234567Z', undefined],
    ['2026-03-01T09:30:00', undefined],
    ['2026-03-01', undefined],
    ['0001-01-01T00:00:00+00:01', undefined],
    ['9999-12-31T23:59:59.999999+00:00', FAR_FUTURE],
    ['9999-12-31T23:59:59-00:01', undefined],
    ['', undefined],
  ];
  for (const [text, instant] of read) {
    it(`${JSON.stringify(text)} is ${instant ?? 'refused'}`, () => assert.equal(parseInstant(text), instant));
  }

  it('after another is the wall clock, or a microsecond later where the clock stepped back', () => {
    const wallMs = 1_772_357_400_000;
    assert.equal(instantAfter(undefined, wallMs), '2026-03-01T09:30:00+00:00');
    assert.equal(instantAfter('2026-03-01T09:29:59+00:00', wallMs), '2026-03-01T09:30:00+00:00');
    assert.equal(instantAfter('2026-03-01T09:30:00+00:00', wallMs), '2026-03-01T09:30:00.000001+00:00');
    assert.equal(instantAfter('2099-01-01T00:00:00.999999+00:00', wallMs), '2099-01-01T00:00:01+00:00');
  });
});
