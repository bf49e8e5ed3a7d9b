/** The pure rules as tables. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FAR_FUTURE } from '../../shared/base/instant.ts';
import { sameJson } from '../../shared/base/json.ts';
import { reasonFaults } from '../outbox/event.ts';
import { actOf, acts } from './drafts.ts';
import { businessKeyFault, checkData, dictionaryNameFault, openFrom, roleOf, titleFault } from './rules.ts';

const now = '2026-03-01T09:30:00+00:00';

describe('names', () => {
  it('of dictionaries are lower case, begin with a letter or digit, and have at most 128 characters', () => {
    for (const name of ['a', '0', 'device.ports', 'a_b-c.9', 'a'.repeat(128)])
      assert.equal(dictionaryNameFault(name), '', name);
    for (const name of ['', '.a', '-a', 'A', 'a b', 'a/b', 'ä', 'a\n', 'a'.repeat(129)])
      assert.notEqual(dictionaryNameFault(name), '', JSON.stringify(name));
  });

  it('business keys have 1 to 256 code points, any but controls and halves of surrogate pairs', () => {
    for (const key of ['a', ' ', '/', '%', 'ключ', 'a:b', '😀'.repeat(256), 'é', 'e\u0301', '\u2028'])
      assert.equal(businessKeyFault(key), '', key);
    const refused = [
      '',
      '\n',
      'a\u0000',
      '\u007f',
      '\u0085',
      '\ud83d',
      'a'.repeat(257),
      '😀'.repeat(257),
      'a'.repeat(9e5),
    ];
    for (const key of refused) assert.notEqual(businessKeyFault(key), '', JSON.stringify(key.slice(0, 9)));
  });

  it('titles are one line; reasons may have several, up to 1,000 characters', () => {
    assert.equal(titleFault('Tools of hall 3'), '');
    for (const title of ['', 'a\nb', 'a'.repeat(257)]) assert.notEqual(titleFault(title), '');
    for (const reason of ['', 'a\nb', 'a'.repeat(1_000), '\u{1f511}'.repeat(1_000)])
      assert.deepEqual(reasonFaults(reason), []);
    for (const reason of ['a\u0000', '\udc00', 'a'.repeat(1_001), '\u{1f511}'.repeat(1_001)])
      assert.notDeepEqual(reasonFaults(reason), []);
  });

  it('the role that opens a scope is named after it', () => {
    assert.deepEqual((['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const).map(roleOf), [
      '',
      'refdata-internal',
      'refdata-restricted',
    ]);
  });
});

describe('data', () => {
  it('is an object', () => {
    assert.equal(checkData({ a: [1, 'x', null, { b: true }] }).fault, undefined);
    for (const data of [null, [], 'a', 1]) assert.notEqual(checkData(data).fault, undefined);
  });

  it('is bounded in bytes, not characters', () => {
    assert.equal(checkData({ a: 'x'.repeat(256 * 1024 - 8) }).fault, undefined);
    assert.match(checkData({ a: 'x'.repeat(256 * 1024 - 7) }).fault ?? '', /256 KiB/);
    assert.match(checkData({ a: 'ж'.repeat(128 * 1024) }).fault ?? '', /256 KiB/);
  });

  it('is the same whatever the order of its fields', () => {
    assert.equal(sameJson({ a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 }), true);
    const different = [
      [{ a: 1 }, { a: 1, b: 1 }],
      [
        [1, 2],
        [2, 1],
      ],
      [{ a: undefined }, { b: undefined }],
      [[], {}],
      [null, {}],
    ];
    for (const [a, b] of different) assert.equal(sameJson(a, b), false);
    fc.assert(fc.property(fc.jsonValue(), (value) => sameJson(value, JSON.parse(JSON.stringify(value)))));
  });
});

it('a record begins with its transaction, or at a time before the end of time', () => {
  assert.deepEqual(openFrom(undefined, now), { validFrom: now, validTo: FAR_FUTURE });
  for (const asked of ['', 'now', '2026-03-01', '2026-02-30T00:00:00Z', '2026-03-01T09:30:00', FAR_FUTURE])
    assert.equal(typeof openFrom(asked, now), 'string', asked);
});

it('each step of a draft is taken from these states and no others', () => {
  const from = Object.entries(acts).map(([name, act]) => `${act.from.join(' ')} -${name}-> ${act.to}`);
  assert.deepEqual(from, [
    'draft -request-review-> inReview',
    'inReview -approve-> approved',
    'inReview -reject-> rejected',
    'approved -publish-> published',
    'draft inReview approved -withdraw-> withdrawn',
  ]);
});

it('a draft takes a decision with decide, and with nothing else', () => {
  assert.equal(actOf('decide', 'approved'), acts.approve);
  assert.equal(actOf('decide', 'rejected'), acts.reject);
  assert.equal(actOf('decide', undefined), undefined);
  assert.equal(actOf('publish', undefined), acts.publish);
  assert.equal(actOf('publish', 'approved'), undefined);
});
