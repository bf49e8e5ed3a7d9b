/** Kafka clients that come and go: see client-rounds.ts. `npm run soak -- clients` makes thousands. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { clientRounds } from './client-rounds.ts';

it('makes and ends 300 clients that talk all the while, and its process ends too', async () => {
  const { ended, lines } = await clientRounds(300, 100_000);
  assert.equal(ended, 300);
  assert.ok(lines > 300, `${lines} lines of librdkafka came through`);
});
