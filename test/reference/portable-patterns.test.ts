/**
 * The JSON Schemas that lineside publishes are read by validators of many languages, each with its own regular
 * expressions: their patterns keep to what all of these have in common.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { RouteParts } from '../../src/hub/http/routes/route.ts';
import { openapiDocument } from '../../src/hub/http/routes/routes.ts';
import { configSchema } from '../../src/shared/config/config.ts';

/** Classes of Unicode, code points in braces, digits that are not only 0 to 9, named groups, and what looks around. */
const UNPORTABLE = /\\[pPuUdDwWbBAZzG]|\(\?(?!:)/;

const topicEvent = join(import.meta.dirname, '../../proto/dictionary-changed.schema.json');
const published: Readonly<Record<string, () => unknown>> = {
  'the schema of the topic event': () => JSON.parse(readFileSync(topicEvent, 'utf8')),
  'the schema of the configuration': () => configSchema,
  'the OpenAPI document': async () => JSON.parse(openapiDocument({ version: '' } as RouteParts)),
};

describe('the patterns of', () => {
  for (const [name, read] of Object.entries(published)) {
    it(`${name} are portable`, async () => {
      const patterns = patternsOf(await read());
      assert.ok(patterns.length > 0);
      assert.deepEqual(
        patterns.filter((pattern) => UNPORTABLE.test(pattern)),
        [],
      );
    });
  }
});

function patternsOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([name, value]) =>
    name === 'pattern' && typeof value === 'string' ? [value] : patternsOf(value),
  );
}
