import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fieldsOf, recordColumns, wholeText } from './schema.ts';

const schema = {
  type: 'object',
  required: ['name', 'place'],
  properties: {
    name: { type: 'string', title: 'Name', description: 'On its door.' },
    floor: { type: ['integer', 'null'] },
    level: { $ref: '#/$defs/level' },
    since: { type: 'string', format: 'date' },
    place: { type: 'object', required: ['x'], properties: { x: { type: 'number' }, deep: { $ref: '#/$defs/deep' } } },
    tags: { type: 'array', items: { type: 'string' } },
    either: { type: ['string', 'number'] },
    circle: { $ref: '#/$defs/circle' },
  },
  $defs: {
    level: { enum: ['low', 'high', 3] },
    circle: { $ref: '#/$defs/circle' },
    deep: { type: 'object', properties: { a: { type: 'object', properties: { b: { type: 'string' } } } } },
  },
};

describe('the fields of a schema', () => {
  it('have their kinds; what is not understood is JSON', () => {
    const kinds = Object.fromEntries(fieldsOf(schema).map(({ name, kind }) => [name, kind]));
    assert.deepEqual(kinds, {
      name: 'string',
      floor: 'integer',
      level: 'choice',
      since: 'date',
      place: 'object',
      tags: 'json',
      either: 'json',
      circle: 'json',
    });
    const [name, , level, , place] = fieldsOf(schema);
    assert.deepEqual([name?.label, name?.hint, name?.isRequired], ['Name', 'On its door.', true]);
    assert.deepEqual(level?.choices, ['"low"', '"high"', '3']);
    assert.deepEqual(
      place?.fields.map(({ name: inner, isRequired }) => [inner, isRequired]),
      [
        ['x', true],
        ['deep', false],
      ],
    );
    assert.equal(place?.fields[1]?.fields[0]?.kind, 'json');
  });

  it('are none if there is no schema, or one that is no object', () => {
    for (const none of [null, undefined, true, 'x', [], {}, { properties: [] }, { properties: 3 }, { $ref: '#/a/b' }])
      assert.deepEqual(fieldsOf(none), []);
    assert.equal(fieldsOf({ properties: { a: true, b: null } }).length, 2);
  });
});

describe('columns', () => {
  it('have distinct heads, and values as people read them', () => {
    const columns = recordColumns(
      {
        properties: {
          Key: { type: 'string' },
          a: { type: 'string', title: 'Same' },
          b: { type: 'number', title: 'Same' },
          constructor: { type: 'object' },
        },
      },
      ['Key'],
    );
    assert.deepEqual(
      columns.map(({ head, isNumber }) => [head, isNumber]),
      [
        ['Key (Key)', false],
        ['Same', false],
        ['b', true],
        ['constructor', false],
      ],
    );
    const data = JSON.parse('{"a": "x", "b": 1.50, "Key": null}') as object;
    assert.deepEqual(
      columns.map(({ cell }) => cell(data)),
      ['', 'x', '1.5', ''],
    );
    assert.deepEqual(
      columns.map(({ cell }) => cell(undefined)),
      ['', '', '', ''],
    );
    const cells = (value: unknown) => columns[1]?.cell({ a: value });
    assert.deepEqual([cells({ n: [1] }), cells(false), cells(0)], ['{"n":[1]}', 'false', '0']);
    assert.match(cells('2026-03-01T09:30:00+00:00') ?? '', /^2026-0[23]-\d\d \d\d:[03]0:00$/);
    assert.equal(cells('x'.repeat(500))?.length, 81);
  });

  it('are one without a schema, of the values with their names', () => {
    assert.equal(
      wholeText({ name: 'Pump', kW: 7.5, at: null, of: { a: 1 } }),
      'name: Pump, kW: 7.5, at: , of: {"a":1}',
    );
    assert.equal(wholeText({ a: 'x'.repeat(79), b: 'y' }).length, 81);
  });

  it('are eight at most', () => {
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`p${i}`, { type: 'string' }]));
    assert.deepEqual([recordColumns({ properties: many }, []).length, fieldsOf({ properties: many }).length], [8, 100]);
  });
});
