import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { FAR_FUTURE, type Instant, instantOfUs } from '../../shared/base/instant.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { codePoint } from '../../shared/base/text.fixture.ts';
import { hubMigrations } from '../migrations.ts';
import { recordEvent, sentText, type WholeRecordEvent, withVersion } from './event.fixture.ts';
import { categoryOf, type DefinitionEventType, type JsonObject, type Stamp, scopes, storedBody } from './event.ts';
import { openRefdataFile } from './refdata-file.ts';
import { Transactions } from './transaction.ts';

const schema: object = JSON.parse(
  readFileSync(new URL('../../../proto/dictionary-changed.schema.json', import.meta.url), 'utf8'),
);
const ajv = new Ajv2020({ strict: true, strictRequired: false, allErrors: true, allowUnionTypes: true });
formats.default(ajv);
const validate = ajv.compile(schema);

const fields = (
  'schemaVersion eventType occurredAt txTime changedBy changeReason scope dictionary businessKey action version ' +
  'validFrom validTo data previousData'
).split(' ');

const instant: fc.Arbitrary<Instant> = fc.bigInt(0n, 4_000_000_000_000_000n).map(instantOfUs);
const stamp: fc.Arbitrary<Stamp> = fc.record({
  txTime: instant,
  occurredAt: instant,
  changedBy: fc.string({ minLength: 1 }),
  changeReason: fc.string({ unit: codePoint }),
});
const json = fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }).map((value) => plain(value));

const record: fc.Arbitrary<WholeRecordEvent> = fc
  .record({
    eventType: fc.constantFrom('dictionary.changed' as const, 'dictionary.bulk_imported' as const),
    scope: fc.constantFrom(...scopes),
    dictionary: fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,127}$/),
    businessKey: fc.string({ minLength: 1, maxLength: 256, unit: codePoint }).filter((key) => !/\p{Cc}/u.test(key)),
    action: fc.constantFrom('created' as const, 'updated' as const, 'closed' as const),
    version: fc.integer({ min: 2, max: 2 ** 40 }),
    validFrom: instant,
    closedAt: instant,
    data: json,
    before: json,
  })
  .map(({ closedAt, before, ...event }) => ({
    ...event,
    kind: 'record',
    validTo: event.action === 'closed' ? closedAt : FAR_FUTURE,
    before: event.action === 'created' ? undefined : before,
  }));

/** As it is after a way through JSON text. */
function plain(value: unknown): JsonObject {
  return JSON.parse(JSON.stringify(value));
}

const fixed: Stamp = {
  txTime: '2026-03-01T09:30:00.250001+00:00',
  occurredAt: '2026-03-01T09:30:00.250000+00:00',
  changedBy: 'anna',
  changeReason: 'why not',
};

const { connection } = openRefdataFile(temporaryDirectory({ after }), hubMigrations);
after(() => connection.close());
const outbox = new Transactions(connection, new FakeClock());
const sent = connection.prepare<[number], string>('SELECT body FROM events WHERE id = ?').pluck();
let written = 0;

/** As it is sent. */
function textOf(event: WholeRecordEvent, by: Stamp): string {
  const id = ++written;
  outbox.run(() => outbox.insert(id, withVersion(connection, event, by), by));
  return sent.get(id) ?? '';
}

function made(event: WholeRecordEvent, by: Stamp = fixed): JsonObject {
  return JSON.parse(textOf(event, by));
}

function previous(before: JsonObject, data: JsonObject): unknown {
  return made(recordEvent('a', 2, { before, data }))['previousData'];
}

test('every topic event has the fields of the specification in its order, as JSON.stringify writes them, and holds to the schema', () => {
  fc.assert(
    fc.property(record, stamp, (event, by) => {
      const text = textOf(event, by);
      assert.equal(text, sentText(event, by));
      const envelope: JsonObject = JSON.parse(text);
      assert.deepEqual(Object.keys(envelope), fields);
      assert.ok(validate(envelope), JSON.stringify(validate.errors));
      assert.deepEqual(envelope['data'], event.data);
    }),
  );
});

test('an envelope with one thing wrong is refused by the schema', () => {
  const wrong: readonly [string, unknown][] = [
    ['schemaVersion', '2.0.0'],
    ['schemaVersion', '1.0'],
    ['eventType', 'dictionary.exploded'],
    ['occurredAt', '2026-03-01T09:30:00Z'],
    ['txTime', '2026-03-01T09:30:00.25+00:00'],
    ['txTime', '2026-02-30T09:30:00+00:00'],
    ['changedBy', ''],
    ['scope', 'SECRET'],
    ['dictionary', 'Tools'],
    ['businessKey', ''],
    ['businessKey', 'a\nb'],
    ['action', 'deleted'],
    ['version', 0],
    ['version', 1.5],
    ['version', '1'],
    ['data', null],
    ['data', []],
    ['previousData', 'x'],
    ['extra', 1],
  ];
  for (const action of ['created', 'updated', 'closed'] as const) {
    const good = ofAction(action);
    assert.ok(validate(good), JSON.stringify(validate.errors));
    for (const [field, value] of wrong) {
      assert.equal(validate({ ...good, [field]: value }), false, `${action}: ${field} = ${JSON.stringify(value)}`);
    }
    for (const field of fields) {
      const { [field]: _, ...lacking } = good;
      assert.equal(validate(lacking), false, `${action} without ${field}`);
    }
  }
});

test('the schema holds the rules of the actions', () => {
  const refused = (action: WholeRecordEvent['action'], change: JsonObject): void =>
    assert.equal(validate({ ...ofAction(action), ...change }), false, `${action} ${JSON.stringify(change)}`);
  refused('created', { previousData: {} });
  refused('created', { validTo: '2027-01-01T00:00:00+00:00' });
  refused('updated', { previousData: null });
  refused('updated', { validTo: '2027-01-01T00:00:00+00:00' });
  refused('updated', { version: 1 });
  refused('closed', { previousData: null });
  refused('closed', { validTo: FAR_FUTURE });
});

function ofAction(action: WholeRecordEvent['action']): JsonObject {
  const validTo = action === 'closed' ? fixed.txTime : FAR_FUTURE;
  return made(recordEvent('a', 3, { action, validTo, before: action === 'created' ? undefined : { n: 2 } }));
}

test('previousData is null, the fields of the old version that changed, or the whole old version', () => {
  assert.equal(made(recordEvent('a'))['previousData'], null);
  assert.deepEqual(previous({ a: 1, b: { c: [1, 2] }, gone: null }, { b: { c: [1, 2] }, a: 2, fresh: 1 }), {
    a: 1,
    gone: null,
  });
  assert.deepEqual(previous({ b: { x: 1, y: 2 } }, { b: { y: 2, x: 1 } }), {}, 'the order of fields is no change');
  assert.deepEqual(previous({ list: [1, 2] }, { list: [2, 1] }), { list: [1, 2] });
  assert.deepEqual(previous({ a: {} }, { a: [] }), { a: {} });
  const closed = made(recordEvent('a', 2, { action: 'closed', before: { a: 1 }, data: { a: 1 } }));
  assert.deepEqual(closed['previousData'], { a: 1 });
});

test('a field named __proto__ is data like any other', () => {
  const before: JsonObject = JSON.parse('{"__proto__": {"a": 1}, "b": 1}');
  assert.equal(JSON.stringify(previous(before, { b: 1 })), '{"__proto__":{"a":1}}');
  assert.deepEqual(previous({ toString: 1 }, {}), { toString: 1 });
});

test('the old version is the new one with previousData laid over it and the new fields removed', () => {
  fc.assert(
    fc.property(json, json, (before, data) => {
      const changed = Object.entries(plain(previous(before, data)));
      const kept = Object.entries(data).filter(([name]) => Object.hasOwn(before, name));
      assert.deepEqual(Object.fromEntries([...kept, ...changed]), before);
      // Own fields alone: data without a field "__proto__" inherits one.
      for (const [name, value] of changed) if (Object.hasOwn(data, name)) assert.notDeepEqual(data[name], value);
    }),
  );
});

test('a definition or draft is reported with the fields that were decided, in their order', () => {
  const types: Readonly<Record<DefinitionEventType, string>> = {
    DefinitionCreated: 'dict.definition.*',
    DefinitionUpdated: 'dict.definition.*',
    SchemaDraftCreated: 'dict.draft.*',
    SchemaDraftReviewRequested: 'dict.draft.*',
    SchemaDraftDecided: 'dict.draft.*',
    SchemaDraftPublished: 'dict.draft.*',
    SchemaDraftWithdrawn: 'dict.draft.*',
  };
  for (const [eventType, category] of Object.entries(types) as [DefinitionEventType, string][]) {
    const event = {
      kind: 'definition',
      eventType,
      scope: 'PUBLIC',
      dictionary: 'tools',
      data: { name: 'tools' },
    } as const;
    assert.equal(categoryOf(event), category);
    assert.equal(
      storedBody(event, fixed),
      `{"schemaVersion":"1.0.0","eventType":"${eventType}","category":"${category}","dictionary":"tools",` +
        `"occurredAt":"${fixed.occurredAt}","changedBy":"anna","data":{"name":"tools"}}`,
    );
  }
});
