import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { on } from 'node:events';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../outbox/event.ts';
import { compileSchema, type DataCheck } from './json-schema.ts';

function faults(schema: unknown): readonly string[] {
  const compiled = compileSchema(schema as JsonObject, '/schema');
  return 'faults' in compiled ? compiled.faults : [];
}

function check(schema: unknown): (data: JsonObject) => readonly string[] {
  const compiled = compileSchema(schema as JsonObject, '/schema');
  if ('faults' in compiled) throw new Error(compiled.faults.join('; '));
  const run: DataCheck = compiled.check;
  return (data) => run(data, JSON.stringify(data).length);
}

describe('a schema', () => {
  it('says every fault of the data, each with its place', () => {
    const tool = check({
      type: 'object',
      required: ['name', 'toString'],
      properties: { name: { type: 'string' }, 'a/b': { type: 'integer' }, unit: { enum: ['mm', 'in'] } },
      additionalProperties: false,
    });
    assert.deepEqual(tool({ name: 1, 'a/b': 'x', unit: 'm', extra: 1 }), [
      "/data must have required property 'toString'",
      '/data must NOT have additional properties: "extra"',
      '/data/name must be string',
      '/data/a~1b must be integer',
      '/data/unit must be equal to one of the allowed values: ["mm","in"]',
    ]);
    assert.deepEqual(tool({ name: 'a', toString: 1 }).length, 1, 'toString is additional, yet it is found');
  });

  it('of draft-07 is recognized by its $schema', () => {
    const list = check({
      $schema: 'http://json-schema.org/draft-07/schema#',
      properties: { a: { items: [{ type: 'string' }, { type: 'number' }] } },
    });
    assert.deepEqual(list({ a: ['x', 1] }), []);
    assert.deepEqual(list({ a: [1, 1] }), ['/data/a/0 must be string']);
    assert.match(
      faults({ $schema: 'http://json-schema.org/draft-03/schema#' })[0] ?? '',
      /^\/schema\/\$schema is not known/,
    );
    assert.match(faults({ properties: { a: { items: [{}] } } })[0] ?? '', /^\/schema\/properties\/a\/items must be/);
  });

  it('is refused with every fault and its pointer', () => {
    assert.deepEqual(
      faults({ properties: { a: { pattern: '(?=a)' }, 'b~/c': { $ref: 'https://example.org/x', requird: [] } } }),
      [
        '/schema/properties/a/pattern looks ahead or behind, which takes more than linear time',
        '/schema/properties/b~0~1c/$ref must stay inside the schema ("#/$defs/..."): nothing is fetched',
        '/schema/properties/b~0~1c/requird is no keyword of JSON Schema; own ones begin with x-',
      ],
    );
    const types =
      'must be equal to one of the allowed values: ["array","boolean","integer","null","number","object","string"]';
    assert.deepEqual(faults({ type: 'objekt', properties: { a: { type: ['string', 'x'] } }, minLength: -1 }), [
      `/schema/properties/a/type/1 ${types}`,
      `/schema/type ${types}`,
      '/schema/minLength must be >= 0',
    ]);
    assert.match(faults({ patternProperties: { '(': {} } })[0] ?? '', /^\/schema\/patternProperties\/\( is no pattern/);
    assert.match(faults({ format: 'colour' })[0] ?? '', /^\/schema\/format is not a known format/);
    assert.match(faults({ $ref: '#/$defs/none' })[0] ?? '', /resolve/);
    assert.match(faults({ pattern: '(a)\\1' })[0] ?? '', /refers back/);
    assert.deepEqual(
      faults({ const: { $ref: 'https://example.org/' }, 'x-shown': true, examples: [{ pattern: '(' }] }),
      [],
    );
  });

  it('keeps its references, formats and patterns', () => {
    const node = check({
      $defs: { node: { type: 'object', properties: { child: { $ref: '#/$defs/node' }, at: { format: 'date-time' } } } },
      $ref: '#/$defs/node',
      properties: { code: { pattern: '^\\p{Lu}{2}-\\d{4}$' }, sub: { pattern: 'b' } },
    });
    assert.deepEqual(node({ child: { child: { at: 'then' } }, code: 'ÄB-1234', sub: 'abc' }), [
      '/data/child/child/at must match format "date-time"',
    ]);
    assert.deepEqual(node({ code: 'ab-1' }).length, 1);
  });

  it('leaves alone what it was given', () => {
    const schema = { type: 'object', $id: 'https://json-schema.org/draft/2020-12/schema' };
    const before = JSON.stringify(schema);
    for (let i = 0; i < 2; i++) assert.deepEqual(check(schema)({}), []);
    assert.equal(JSON.stringify(schema), before);
  });
});

describe('a hostile schema', () => {
  it('that is huge is refused', () => {
    assert.match(faults({ description: 'x'.repeat(65_536) })[0] ?? '', /at most 64 KiB/);
  });

  it('cannot take exponential time for a pattern', () => {
    // Backtracking would take 2^2000 steps; a machine under load must stay within the limit of the check, 500 ms.
    const data = { a: `${'a'.repeat(2_000)}!` };
    assert.deepEqual(check({ properties: { a: { pattern: '^(a+)+$' } } })(data), [
      '/data/a must match pattern "^(a+)+$"',
    ]);
    assert.match(faults({ pattern: '((a{1000}){1000}){1000}' })[0] ?? '', /is no pattern/);
  });

  it('that refers to itself without end is a fault of the check, not the end of the process', () => {
    assert.match(check({ allOf: [{ $ref: '#' }] })({})[0] ?? '', /cannot be checked/);
  });

  it('that takes exponential time is stopped', () => {
    const $defs: Record<string, object> = { a40: { type: 'string' } };
    for (let i = 0; i < 40; i++)
      $defs[`a${i}`] = { anyOf: [{ $ref: `#/$defs/a${i + 1}` }, { $ref: `#/$defs/a${i + 1}` }] };
    assert.deepEqual(check({ $defs, properties: { a: { $ref: '#/$defs/a0' } } })({ a: 1 }), [
      '/data takes more than 500 ms to check against the schema of its dictionary',
    ]);
  });

  it('or data with a hundred thousand faults lists some of them and counts the rest', () => {
    const found = check({ properties: { a: { items: { type: 'string' } } } })({ a: Array<number>(100_000).fill(1) });
    assert.equal(found.length, 101);
    assert.equal(found.at(-1), 'and 99900 more');
  });

  it('with duplicates to look for in a long list is stopped in time', () => {
    const items = Array.from({ length: 60_000 }, (_, i) => ({ i }));
    assert.match(check({ properties: { a: { uniqueItems: true } } })({ a: items })[0] ?? '', /takes more than 500 ms/);
  });

  it('is not refused for the time in which the processor was elsewhere', async () => {
    const script = `import { compileSchema } from ${JSON.stringify(import.meta.resolve('./json-schema.ts'))};
      const data = { a: Array.from({ length: 2000 }, (_, i) => ({ i })) };
      const { check } = compileSchema({ properties: { a: { uniqueItems: true } } }, '');
      for (let ms = 0, found; ms < 1_000; process.send({ found, ms })) {
        const from = performance.now();
        found = check(data, 20_000);
        ms = performance.now() - from;
      }`;
    const node = ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', script];
    const child = spawn(process.execPath, node, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    // One check after the other, until one was stopped for longer than its limit.
    for await (const [{ found, ms }] of on(child, 'message', { close: ['exit'] }) as AsyncIterable<
      [{ found: string[]; ms: number }]
    >) {
      assert.deepEqual(found, []);
      if (ms >= 1_000) return;
      // In the next check, or just before it.
      child.kill('SIGSTOP');
      await pause(1_000);
      child.kill('SIGCONT');
    }
    assert.fail('no check was stopped');
  });
});
