/** Whatever is asked for, with the real guard before it: refused with reasons that name their fields, or taken as it was asked. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { it } from 'node:test';
import fc from 'fast-check';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { scopes } from '../../outbox/event.ts';
import { EgressGuard } from '../egress/guard.ts';
import { Resolver } from '../egress/resolver.ts';
import { actions, categories, type SubscriptionPatch, type SubscriptionRequest } from '../face.ts';
import { admin, request, rowsOf, subscriptionsRig, trusted } from './subscriptions.fixture.ts';

const fields = 'name url secret consumer scopes dictionaries actions categories active graceSeconds changeReason'.split(
  ' ',
);
const namesField = new RegExp(`^/(${fields.join('|')})\\b`);

const anyText = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary-ascii' }), fc.webUrl(), fc.string());
/** Mostly sound, so that sound ones come about. */
const mostly = <T>(good: fc.Arbitrary<T>, bad: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight: 12, arbitrary: good }, { weight: 1, arbitrary: bad });
const list = (known: readonly string[]): fc.Arbitrary<readonly string[] | null> =>
  mostly(fc.option(fc.array(fc.constantFrom(...known), { maxLength: 5 })), fc.array(anyText, { maxLength: 5 }));
const url = mostly(
  fc.webUrl({ validSchemes: ['https'], withQueryParameters: true, withFragments: true }),
  fc.oneof(anyText, fc.constantFrom('https://127.1/', 'https://[::1]/', 'http://a.example/', 'https://10.1.2.3/')),
);
const terms = {
  name: mostly(fc.stringMatching(/^[!-~]([ -~]{0,126}[!-~])?$/), anyText),
  url,
  scopes: list(scopes),
  dictionaries: list(['tools', 'a.b', '0']),
  actions: list(actions),
  categories: list(categories),
  active: fc.boolean(),
};
const secret = mostly(fc.string({ unit: 'binary', minLength: 16, maxLength: 300 }), anyText);
const anyRequest: fc.Arbitrary<SubscriptionRequest> = fc.record(
  { ...terms, secret, consumer: mostly(fc.constantFrom('anna', 'ivan', 'tess'), anyText) },
  { requiredKeys: ['name', 'url', 'secret'] },
);
const anyPatch: fc.Arbitrary<SubscriptionPatch> = fc.record(terms, { requiredKeys: [] });
const reason = mostly(fc.string(), fc.oneof(anyText, fc.constant('x'.repeat(2_000))));

function mustBeRefusal(error: unknown): void {
  assert.ok(error instanceof LinesideError, String(error));
  assert.equal(error.code, 'INVALID_ARGUMENT');
  assert.ok(error.reasons.length > 0);
  for (const each of error.reasons) assert.match(each, namesField);
}

it('any request is refused with reasons that name their fields, having written nothing, or is stored as asked', async (t) => {
  const clock = new FakeClock();
  const resolver = new Resolver(clock, async (hostname) => [
    { address: hostname.length % 7 === 0 ? '10.0.0.1' : '198.41.0.4', family: 4 },
  ]);
  const egress = new EgressGuard({ allowCidrs: [], allowPorts: [], clock, resolver, ownAddresses: () => [] });
  const rig = subscriptionsRig(t, { egress });
  const { cache } = rig;
  const count = (): unknown[] =>
    rowsOf(rig, 'SELECT (SELECT count(*) FROM webhook_subscriptions) AS s, (SELECT count(*) FROM audit) AS a');
  const seen = { claim: 0, refused: 0, patched: 0 };
  await fc.assert(
    fc.asyncProperty(anyRequest, anyPatch, reason, async (wanted, patch, why) => {
      const before = count();
      const keyBefore = existsSync(rig.keyFile);
      try {
        const made = await cache.subscribe(trusted, wanted, why);
        seen.claim += 1;
        assert.deepEqual([made.name, made.url, made.active], [wanted.name, wanted.url, wanted.active ?? true]);
        assert.deepEqual(cache.secrets(Number(made.id), 0), { current: wanted.secret, previous: undefined });
        assert.deepEqual(rig.reopen().subscription(made.id), made);
      } catch (error) {
        mustBeRefusal(error);
        seen.refused += 1;
        assert.deepEqual(count(), before);
        assert.equal(existsSync(rig.keyFile), keyBefore);
        return;
      }
      const id = cache.all().at(-1)?.id ?? 0;
      try {
        const changed = await cache.update(trusted, String(id), patch, 1, why);
        seen.patched += 1;
        assert.equal(changed.version, 2);
        assert.deepEqual(rig.reopen().subscription(String(id)), changed);
      } catch (error) {
        mustBeRefusal(error);
      } finally {
        await cache.unsubscribe(admin, String(id), '');
      }
    }),
    { numRuns: 400 },
  );
  for (const [what, times] of Object.entries(seen)) assert.ok(times > 20, `${what}: ${times}`);
  assert.equal((await cache.subscribe(admin, request(), '')).version, 1, 'it serves on');
});
