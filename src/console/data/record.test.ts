import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { objectFault, recordBody, validityText } from './record.ts';

describe('a record that was typed', () => {
  it('is sent letter by letter, so that no number is rounded', () => {
    const body = recordBody({ businessKey: 'a "b"', changeReason: '' }, '{"n": 12345678901234567890}');
    assert.equal(body, '{"businessKey":"a \\"b\\"","changeReason":"","data":{"n": 12345678901234567890}}');
    assert.equal(recordBody({}, '{}'), '{"data":{}}');
  });

  it('is an object, or its fault is named', () => {
    assert.equal(objectFault('{"a":1}'), '');
    for (const text of ['', '{', '[]', 'null', '3', '{"a":1} "data":2']) assert.notEqual(objectFault(text), '', text);
  });
});

describe('the validity of a version', () => {
  const version = (
    action: 'created' | 'updated' | 'closed',
    validFrom: string,
    validTo = '9999-12-31T23:59:59.999999+00:00',
  ) => ({
    action,
    validFrom: `${validFrom}T12:00:00+00:00`,
    validTo: validTo.length > 10 ? validTo : `${validTo}T12:00:00+00:00`,
  });

  it('ends with the version that replaced it', () => {
    const first = version('created', '2026-03-01');
    assert.match(validityText(first), /^from 2026-03-01 \S+$/);
    assert.match(validityText(first, version('updated', '2026-05-01')), /^2026-03-01 \S+ to 2026-05-01 \S+$/);
    const closed = version('closed', '2026-03-01', '2026-04-01');
    assert.match(validityText(first, closed), /^2026-03-01 \S+ to 2026-04-01 \S+$/);
    assert.match(validityText(closed), /^closed at 2026-04-01 \S+, valid from 2026-03-01/);
  });

  it('is none if it was replaced before it began', () => {
    const ahead = version('updated', '2027-01-01');
    for (const next of [version('updated', '2027-01-01'), version('closed', '2026-03-01', '2026-03-01')])
      assert.match(validityText(ahead, next), /^never valid: replaced before 2027-01-01/);
  });
});
