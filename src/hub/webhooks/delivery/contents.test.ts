import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseExactJson } from '../../../shared/base/json.ts';
import { codePoint } from '../../../shared/base/text.fixture.ts';
import { recordEvent, sentText, type WholeEvent } from '../../outbox/event.fixture.ts';
import type { JsonObject } from '../../outbox/event.ts';
import { readElement } from './contents.fixture.ts';
import { bodyOf, firstEventOf, headBytes, storedBody } from './contents.ts';

const delivery = {
  id: 17,
  nonce: '00ff00ff00ff00ff',
  subscriptionName: 'Line 4 "north" \\ é',
  occurredAt: '2026-03-01T09:30:00.250000+00:00',
};

const at = '2026-03-01T09:29:59.000001+00:00';
const stamp = { txTime: at, occurredAt: at, changedBy: 'anna', changeReason: 'it says "data":{' };

function dataOf(text: string): JsonObject {
  const { value, fault } = parseExactJson(text);
  assert.equal(fault, undefined);
  return value as JsonObject;
}

function elementsOf(events: readonly WholeEvent[]): string {
  return events.map((event) => readElement(event, stamp).element).join();
}

test('the bytes of a delivery', () => {
  const data = dataOf(
    '{"z":[1.50,-0,1e21,1e-7,9007199254740991],"10":"ten","9":null,"data":{"a\\"b\\\\":"}],{\\\\"},"text":"\\u2028é\\n\\ud83d\\ude00/"}',
  );
  const validFrom = '2026-03-01T00:00:00+00:00';
  const elements = elementsOf([
    recordEvent('key "1" \\', 3, { data, validFrom, action: 'closed', before: { previous: true } }),
    recordEvent('k2', 1, { eventType: 'dictionary.bulk_imported', dictionary: 'parts', data: {} }),
    { kind: 'definition', eventType: 'DefinitionUpdated', scope: 'PUBLIC', dictionary: 'tools', data: { a: 1 } },
    { kind: 'definition', eventType: 'SchemaDraftDecided', scope: 'PUBLIC', dictionary: 'tools', data: {} },
  ]);
  const expected = [
    '{"deliveryId":"17-00ff00ff00ff00ff","subscriptionName":"Line 4 \\"north\\" \\\\ é",',
    '"occurredAt":"2026-03-01T09:30:00.250000+00:00","events":[',
    '{"schemaVersion":"1.0.0","eventType":"dictionary.changed","dictionary":"tools","businessKey":"key \\"1\\" \\\\",',
    '"action":"closed","version":3,"validFrom":"2026-03-01T00:00:00+00:00",',
    '"data":{"9":null,"10":"ten","z":[1.5,0,1e+21,1e-7,9007199254740991],"data":{"a\\"b\\\\":"}],{\\\\"},"text":"\u2028é\\n😀/"}},',
    '{"schemaVersion":"1.0.0","eventType":"dictionary.changed","dictionary":"parts","businessKey":"k2",',
    '"action":"created","version":1,"validFrom":"2026-01-01T00:00:00+00:00","data":{}},',
    '{"schemaVersion":"1.0.0","eventType":"DefinitionUpdated","category":"dict.definition.*","dictionary":"tools",',
    '"occurredAt":"2026-03-01T09:29:59.000001+00:00","changedBy":"anna","data":{"a":1}},',
    '{"schemaVersion":"1.0.0","eventType":"SchemaDraftDecided","category":"dict.draft.*","dictionary":"tools",',
    '"occurredAt":"2026-03-01T09:29:59.000001+00:00","changedBy":"anna","data":{}}',
    ']}',
  ];
  assert.equal(String(bodyOf(delivery, storedBody(elements))), expected.join(''));
});

test('whatever a record holds, and whichever program stored it: the element has the text of the envelope, and is no longer than planned', () => {
  const anyText = fc.string({ unit: codePoint });
  fc.assert(
    fc.property(
      fc.dictionary(anyText, fc.jsonValue({ stringUnit: codePoint })),
      anyText,
      anyText,
      fc.integer({ min: 1 }),
      (json, businessKey, changedBy, version) => {
        const data = JSON.parse(JSON.stringify(json)) as JsonObject;
        const event = recordEvent(businessKey, version, { data });
        const by = { ...stamp, changedBy };
        const envelope = sentText(event, by);
        const { schemaVersion, dictionary, action, validFrom } = JSON.parse(envelope) as JsonObject;
        const fields = { schemaVersion, eventType: 'dictionary.changed', dictionary, businessKey, action, version };
        const text = `${JSON.stringify({ ...fields, validFrom }).slice(0, -1)},"data":${JSON.stringify(data)}}`;
        assert.ok(envelope.includes(`"data":${JSON.stringify(data)},"previousData":`));
        for (const { element, bytes } of [readElement(event, by), readElement(event, by, envelope)]) {
          assert.equal(element, text);
          assert.ok(Buffer.byteLength(text) <= bytes);
        }
      },
    ),
  );
});

test('the begin of a body names its first event, whatever key it has, deflated or not', () => {
  const headOf = (...events: readonly WholeEvent[]): unknown => {
    const whole = storedBody(elementsOf(events));
    return firstEventOf(typeof whole === 'string' ? whole.slice(0, headBytes) : whole.subarray(0, headBytes));
  };
  const key = fc.string({ unit: codePoint, minLength: 1, maxLength: 256, size: 'max' });
  fc.assert(
    fc.property(key, fc.nat(40), (businessKey, more) => {
      const others = Array.from({ length: more }, (_, n) => recordEvent(`other ${n}`));
      const expected = { eventType: 'dictionary.changed', dictionary: 'tools', businessKey, action: 'created' };
      assert.deepEqual(headOf(recordEvent(businessKey), ...others), expected);
    }),
  );
  const eventType = 'SchemaDraftDecided';
  const draft = { kind: 'definition', eventType, scope: 'PUBLIC', dictionary: 'tools', data: {} } as const;
  assert.deepEqual(headOf(draft), { eventType, dictionary: 'tools', businessKey: null, action: null });
  for (const damaged of ['', '{}', '{"schemaVersion":"1', Buffer.from('no deflate'), Buffer.alloc(0)])
    assert.equal(firstEventOf(damaged), undefined);
});

test('a name that objects have by nature is a field like any other', () => {
  const data = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as JsonObject;
  assert.ok(elementsOf([recordEvent('k', 1, { data })]).includes('"data":{"__proto__":{"a":1},"constructor":2}'));
});

test('a stored text that is no envelope, or lacks a field, has no element', () => {
  const event = recordEvent('k');
  const body = sentText(event, stamp);
  const damagedTexts = [
    '',
    '[]',
    '{}',
    '{"version"',
    body.replace('"version"', '"Version"'),
    body.replaceAll('"', "'"),
  ];
  for (let end = 0; end < body.indexOf(',"previousData"'); end += 7) damagedTexts.push(body.slice(0, end));
  for (const text of damagedTexts) assert.equal(readElement(event, stamp, text).element, undefined, text);
});

test('many elements are stored deflated, and the bytes are the same', () => {
  const text = elementsOf(Array.from({ length: 100 }, (_, n) => recordEvent(`Ölpumpe ${n}`)));
  const small = storedBody(text);
  assert.ok(Buffer.isBuffer(small) && small.length < text.length / 5);
  assert.ok(bodyOf(delivery, small).equals(bodyOf(delivery, text)));
});
