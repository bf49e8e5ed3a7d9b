import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { countText, durationText, instantText, percentText, plural, sizeText, timeText } from './format.ts';
import { problemFrom, problemOf } from './problem.ts';
import { hashOf, placeOf, rightsOf, withQuery } from './views.ts';

describe('numbers and times', () => {
  it('are short, and "unknown" where there is none', () => {
    assert.deepEqual([0, 1023, 1024, 1_500_000, 3 * 2 ** 40].map(sizeText), [
      '0 B',
      '1023 B',
      '1.00 KiB',
      '1.43 MiB',
      '3.00 TiB',
    ]);
    assert.deepEqual(
      [sizeText(null), countText(null), percentText(null), durationText(null)],
      Array(4).fill('unknown'),
    );
    assert.deepEqual([0, 59.6, 60, 3_603, 3_725, 200_000].map(durationText), [
      '0 s',
      '1 min',
      '1 min',
      '1 h',
      '1 h 2 min',
      '2 d 7 h',
    ]);
    assert.deepEqual([plural(1, 'byte'), plural(1_234, 'byte')], ['1 byte', '1,234 bytes']);
  });

  it('survive a timestamp that no calendar has', () => {
    assert.equal(timeText(2 ** 63), 'no time');
    assert.match(timeText(0), /^\d\d:\d\d:00\.000$/);
    assert.match(instantText('2026-03-01T09:30:00.250000+00:00'), /^2026-0[23]-\d\d \d\d:[03]0:00$/);
    assert.equal(instantText('soon'), 'soon');
  });
});

describe('places', () => {
  it('lead back to where they were made, whatever a business key has in it', () => {
    for (const key of ['a', 'room 1/x', '50%', 'ä#?&', '..']) {
      const query = { text: key, dir: 'rx' };
      const place = { section: 'data', parts: ['site.rooms', key], query };
      assert.deepEqual(placeOf(withQuery(hashOf('data', 'site.rooms', key), { ...query, none: '' })), place);
    }
    for (const hash of ['', '#/', '#/nowhere', '#/data/%E0%A4%A']) assert.equal(placeOf(hash), undefined);
  });
});

describe('what is offered', () => {
  it('is what the roles open', () => {
    assert.deepEqual(rightsOf(['viewer']), { sections: ['line', 'health', 'box'], operates: false, writes: false });
    assert.deepEqual(rightsOf(['operator']), { sections: ['line', 'health', 'box'], operates: true, writes: false });
    assert.deepEqual(rightsOf(['reader']), { sections: ['data'], operates: false, writes: false });
    assert.deepEqual(rightsOf(['writer']).writes, true);
    assert.deepEqual(rightsOf(['admin']), {
      sections: ['line', 'health', 'delivery', 'data', 'box', 'admin'],
      operates: false,
      writes: true,
    });
    assert.deepEqual(rightsOf(['refdata-internal']).sections, []);
  });
});

describe('problems', () => {
  it("are in the service's own words, and whole where it has none", () => {
    const body = JSON.stringify({
      title: 'No port is open',
      detail: 'd',
      code: 'NOT_CONNECTED',
      hint: 'h',
      reasons: ['r'],
    });
    assert.deepEqual(problemOf(409, body), {
      status: 409,
      code: 'NOT_CONNECTED',
      title: 'No port is open',
      detail: 'd',
      hint: 'h',
      reasons: ['r'],
    });
    assert.equal(problemOf(502, '<html>').title, 'The box answered with status 502');
    assert.equal(problemFrom(new TypeError('Failed to fetch')).title, 'The box does not answer');
  });
});
