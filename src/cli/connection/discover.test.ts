import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxesJson } from './discover.ts';

test('the JSON of what answered on the LAN drives no terminal, and says the same', () => {
  // CSI as one character, which JSON does not escape; text that runs the other way.
  const name = 'pump\u009b2J\u202e7 \u00e4';
  const box = { name, host: `${name}.local`, addresses: ['192.0.2.7'], grpcPort: 50_051 };
  const text = boxesJson([
    { ...box, httpPort: undefined, deviceId: undefined, version: undefined, fingerprint: undefined },
  ]);
  assert.doesNotMatch(text, /[\u0080-\u009f\u202a-\u202e]/);
  assert.match(text, /\u00e4/);
  const { boxes } = JSON.parse(text) as { boxes: readonly { name: string; host: string }[] };
  assert.deepEqual([boxes[0]?.name, boxes[0]?.host], [name, `${name}.local`]);
});
