import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Problem } from '../problem.ts';
import {
  changedObject,
  choicesOf,
  controlOf,
  faultOf,
  formFaults,
  linedFaults,
  orNone,
  rawOf,
  shownOf,
  undeclared,
} from './form.ts';
import { membersOf } from './json-text.ts';
import { fieldsOf, type SchemaField } from './schema.ts';

const fields = fieldsOf({
  required: ['name', 'tags'],
  properties: {
    name: { type: 'string' },
    note: { type: ['string', 'null'], maxLength: 20 },
    floor: { type: 'integer', description: 'Above the street.', minimum: -2, maximum: 10 },
    size: { type: 'number' },
    heated: { type: 'boolean' },
    level: { enum: ['low', 3] },
    since: { type: 'string', format: 'date' },
    tags: { type: 'array', items: { type: 'string' } },
    counts: { type: 'array', items: { type: 'number' } },
    any: { type: 'array' },
    'a b': { type: 'object', properties: { x: { type: 'string' }, 'y/z': { type: 'string' } } },
    a: { type: 'string' },
  },
});

function field(name: string): SchemaField {
  const found = fields.find((one) => one.name === name);
  assert.ok(found);
  return found;
}

describe('a field of a form', () => {
  it('shows a value, and makes the same value of what it shows', () => {
    const values: readonly (readonly [name: string, control: string, shown: string, raw: string])[] = [
      ['name', 'line', 'Hall "1"', '"Hall \\"1\\""'],
      ['name', 'line', '', '""'],
      ['floor', 'line', '12345678901234567890', '12345678901234567890'],
      ['size', 'line', '1.50', '1.50'],
      ['size', 'line', '1,5', '"1,5"'],
      ['heated', 'choice', 'false', 'false'],
      ['level', 'choice', '"low"', '"low"'],
      ['level', 'choice', '3', '3'],
      ['since', 'date', '2026-03-01', '"2026-03-01"'],
      ['since', 'line', 'in May', '"in May"'],
      ['tags', 'list', 'a b\n"c"', '["a b", "\\"c\\""]'],
      ['tags', 'list', '', '[]'],
      ['counts', 'list', '1.50\n-', '[1.50, "-"]'],
    ];
    for (const [name, control, shown, raw] of values) {
      const is = [controlOf(field(name), raw), shownOf(field(name), raw), rawOf(field(name), shown)];
      assert.deepEqual(is, [control, shown, raw], `${name}: ${raw}`);
    }
  });

  it('that is empty is left out, unless a text or a list is required', () => {
    for (const name of ['note', 'floor', 'heated', 'level', 'since', 'counts'])
      assert.deepEqual([shownOf(field(name), undefined), rawOf(field(name), '')], ['', undefined], name);
    assert.equal(rawOf({ ...field('tags'), isRequired: false }, '\n'), undefined);
    assert.equal(shownOf(field('note'), 'null'), '');
  });

  it('is edited as JSON if its value is of another type, or cannot be a line', () => {
    const others: readonly (readonly [string, string])[] = [
      ['name', '3'],
      ['floor', 'true'],
      ['tags', '["a", 3]'],
      ['tags', '["a\\nb"]'],
      ['tags', '[""]'],
      ['tags', '"a"'],
      ['counts', '[[1]]'],
      ['any', '[]'],
      ['a b', '[]'],
    ];
    for (const [name, raw] of others) assert.equal(controlOf(field(name), raw), 'none', `${name}: ${raw}`);
    assert.equal(controlOf(field('any'), undefined), 'none');
    assert.equal(controlOf(field('a b'), 'null'), 'object');
  });

  it('says its limits, and what is no number', () => {
    assert.equal(field('floor').hint, 'Above the street. Allowed: -2 or more, 10 or less.');
    assert.equal(field('note').hint, 'Allowed: at most 20 characters.');
    assert.match(faultOf(field('floor'), '1.5'), /"1.5" is not a whole number/);
    assert.match(faultOf(field('size'), '"1,5"'), /"1,5" is not a number/);
    assert.deepEqual(
      [faultOf(field('size'), '1.5'), faultOf(field('floor'), 'null'), faultOf(field('name'), '"x"')],
      ['', '', ''],
    );
  });

  it('offers its choices, also one that is no longer allowed', () => {
    assert.deepEqual(
      choicesOf(field('level'), '"mid"').map(([json]) => json),
      ['', '"low"', '3', '"mid"'],
    );
    assert.deepEqual(
      choicesOf(field('heated'), '').map(([, words]) => words),
      ['not set', 'yes', 'no'],
    );
    assert.deepEqual(
      choicesOf(field('level'), '3').map(([, words]) => words),
      ['not set', 'low', '3'],
    );
  });

  it('changes its object, and keeps what the form does not show', () => {
    const json = '{"name": "Hall", "other": [1.50]}';
    const inner = changedObject(undefined, { ...field('name'), name: 'x' }, '"1"');
    assert.equal(inner, '{"x": "1"}');
    const changed = changedObject(json, field('a b'), orNone(field('a b'), inner));
    assert.equal(changed, '{"name": "Hall", "other": [1.50], "a b": {"x": "1"}}');
    assert.equal(changedObject(changed, field('a b'), orNone(field('a b'), '{ }')), json);
    assert.equal(orNone({ ...field('a b'), isRequired: true }, '{}'), '{}');
    assert.deepEqual(undeclared(fields, membersOf(changed)), ['other']);
  });
});

describe('the faults of the box', () => {
  const problem: Problem = {
    status: 422,
    code: 'INVALID_ARGUMENT',
    title: 'Not valid',
    detail: '8 faults',
    hint: '',
    reasons: [
      "/data must have required property 'name'",
      "/data/a b must have required property 'y/z'",
      '/data/a b/x must be string',
      '/data/a must be string',
      '/data/tags/1 must be string',
      '/businessKey must not be empty',
      "/data/a b must have required property 'q'",
      '/data must NOT have additional properties: "zz"',
    ],
  };

  it('stand at their fields; those of no field above the form', () => {
    const { at, rest } = formFaults(problem, fields, ['/businessKey']);
    assert.deepEqual(Object.fromEntries(at), {
      '/data/name': 'is required',
      '/data/a b/y~1z': 'is required',
      '/data/a b/x': 'must be string',
      '/data/a': 'must be string',
      '/data/tags': 'line 2: must be string',
      '/businessKey': 'must not be empty',
    });
    assert.deepEqual(rest?.reasons, problem.reasons.slice(-2));
    assert.equal(rest?.detail, '');
  });

  it('stand at their lines of a text', () => {
    const json = '{\n  "a b": {\n    "x": 1},\n  "tags": ["a",\n    3], "a": 1}';
    // The key is not in the text.
    assert.deepEqual(
      linedFaults(problem, json, '/data').problem?.reasons.map((one) => /^Line (\d)/.exec(one)?.[1] ?? one),
      ['1', '2', '3', '5', '5', problem.reasons[5], '2', '1'],
    );
    const nested = {
      ...problem,
      reasons: ['/schema/properties/a~1b/type must be string', '/schema/x/y is no keyword'],
    };
    const schema = '{"x": 1,\n"properties": {\n"a/b": {\n"type": 1}}}';
    const lined = linedFaults(nested, schema, '/schema');
    assert.deepEqual(
      [lined.problem?.detail, lined.problem?.reasons],
      ['', nested.reasons.map((one, at) => `Line ${[4, 1][at]}: ${one}`)],
    );
    assert.deepEqual(
      lined.lines,
      nested.reasons.map((fault, at) => ({ line: [4, 1][at], fault })),
    );
    assert.deepEqual(linedFaults(problem, '{', '/data'), { lines: [], problem });
  });

  it('stay together if there is no form', () => {
    assert.deepEqual(formFaults(problem, [], []), { at: new Map(), rest: problem });
    assert.equal(formFaults(undefined, fields, []).rest, undefined);
  });
});
