import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { entriesOf, maxEntryBytes, readItem } from './bundle.ts';
import type { BundleFormat } from './face.ts';
import { notAnInstant } from './rules.ts';

function split(format: BundleFormat, text: string): readonly (readonly [string, string])[] {
  return [...entriesOf(format, Buffer.from(text))].map(({ label, bytes }) => [
    label,
    bytes === undefined ? 'too long' : Buffer.from(bytes).toString(),
  ]);
}

describe('the lines of a bundle', () => {
  it('are those that lie between line feeds', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', 'ж', '\n', '\r') }), (text) => {
        const lines = text.split('\n');
        if (lines.at(-1) === '') lines.pop();
        assert.deepEqual(
          split('ndjson', text).map(([, line]) => line),
          lines,
        );
      }),
    );
  });
});

describe('the items of a bundle', () => {
  it('are found whatever is inside them', () => {
    const item = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(fc.array(item), fc.integer({ min: 0, max: 2 }), (items, indent) => {
        const found = split('json', JSON.stringify({ items }, null, indent));
        assert.deepEqual(
          found.map(([, text]) => JSON.parse(text)),
          items.map((value) => JSON.parse(JSON.stringify(value))),
        );
        assert.deepEqual(
          found.map(([place]) => place),
          items.map((_, at) => `item ${at + 1}`),
        );
      }),
    );
  });

  it('that are no JSON are still distinguished; one that is too long is named', () => {
    assert.deepEqual(split('json', '\ufeff { "items" : [ {"a":"]\\",}"} , nonsense,, 3 ] } \n'), [
      ['item 1', '{"a":"]\\",}"} '],
      ['item 2', ' nonsense'],
      ['item 3', ''],
      ['item 4', ' 3 '],
    ]);
    assert.deepEqual(split('json', `{"items":["${'x'.repeat(maxEntryBytes)}",1]}`), [
      ['item 1', 'too long'],
      ['item 2', '1'],
    ]);
    assert.deepEqual(split('json', '{"items":[]}'), []);
  });

  it('need their frame', () => {
    const broken = [
      '',
      '[]',
      '{}',
      '{"item":[]}',
      '{"items":{}}',
      '{"items":[',
      '{"items":[1',
      '{"items":["a',
      '{"items":[1}',
    ];
    for (const text of [...broken, '{"items":[1]', '{"items":[1],"x":2}', '{"items":[1]}x', '{"items":["\\'])
      assert.throws(() => split('json', text), { code: 'MALFORMED' }, text);
  });
});

describe('an item', () => {
  const read = (text: string): readonly string[] | string => {
    const result = readItem(Buffer.from(text), true);
    if ('blank' in result) return 'blank';
    return 'faults' in result ? result.faults : result.item.action;
  };

  it('is an upsert unless it says close', () => {
    assert.equal(read('{"dictionary":"d","businessKey":"k","data":{}}'), 'upsert');
    assert.equal(
      read('{"dictionary":"d","businessKey":"k","data":{},"action":"upsert","validFrom":"2026-01-01T00:00:00Z"}\r'),
      'upsert',
    );
    assert.equal(read('{"dictionary":"d","businessKey":"k","action":"close"}'), 'close');
    assert.equal(read('\ufeff{"dictionary":"d","businessKey":"k","action":"close"}'), 'close');
    for (const blank of ['', ' ', '\r', '\t\r', '\ufeff']) assert.equal(read(blank), 'blank');
  });

  it('names every fault at once', () => {
    assert.deepEqual(read('{"dictionary":1,"businessKey":"","data":[],"validFrom":"then","extra":1}'), [
      '"extra" is not a field of an item',
      '/dictionary must be a string',
      '/businessKey must not be empty',
      '/data must be an object',
      `/validFrom ${notAnInstant}`,
    ]);
    assert.deepEqual(read('{"dictionary":"d","businessKey":"k","action":"close","data":{},"validFrom":"x"}'), [
      '/data is not for "close"',
      '/validFrom is not for "close"',
    ]);
    assert.deepEqual(read('{"dictionary":"d","businessKey":"k","data":{},"action":"delete"}'), [
      '/action must be "upsert" or "close"',
    ]);
  });
});
