/** What is planned is what is rendered, whatever the events, the filters, and the scopes that are open then and later. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { recordEvent, type WholeEvent } from '../../outbox/event.fixture.ts';
import { type Action, categoryOf, type Scope, scopes } from '../../outbox/event.ts';
import { actions, categories, type Filter } from '../face.ts';
import { deliveriesIn, emit, emitEach, plannerRig, sentIn, sentOf } from './planner.fixture.ts';

const anyScope = fc.constantFrom(...scopes);
const anyDictionary = fc.constantFrom('a', 'b', 'c');
const anyEvent: fc.Arbitrary<WholeEvent> = fc.oneof(
  fc
    .tuple(anyScope, anyDictionary, fc.constantFrom(...actions))
    .map(([scope, dictionary, action]: readonly [Scope, string, Action]) =>
      recordEvent('', 2, { scope, dictionary, action }),
    ),
  fc
    .tuple(anyScope, anyDictionary, fc.constantFrom('DefinitionCreated' as const, 'SchemaDraftPublished' as const))
    .map(([scope, dictionary, eventType]) => ({ kind: 'definition' as const, eventType, scope, dictionary, data: {} })),
);
const listOf = <T>(all: readonly T[]): fc.Arbitrary<readonly T[] | null> =>
  fc.option(fc.uniqueArray(fc.constantFrom(...all), { minLength: 1 }));
const anyFilter: fc.Arbitrary<Filter> = fc.record({
  scopes: fc.uniqueArray(anyScope, { minLength: 1 }),
  dictionaries: listOf(['a', 'b', 'other']),
  actions: listOf(actions),
  categories: listOf(categories),
});
const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ emits: fc.array(anyEvent, { minLength: 1, maxLength: 8 }) }) },
  fc.record({ opens: fc.uniqueArray(anyScope) }),
  fc.record({ plans: fc.constant(true) }),
);

type Step = typeof anyStep extends fc.Arbitrary<infer S> ? S : never;

/** The rule in other words than the room's. */
function isFor(event: WholeEvent, filter: Filter, open: readonly Scope[]): boolean {
  if (!filter.scopes.includes(event.scope) || !open.includes(event.scope)) return false;
  if (filter.dictionaries !== null && !filter.dictionaries.includes(event.dictionary)) return false;
  if (filter.categories !== null && !filter.categories.includes(categoryOf(event))) return false;
  return event.kind !== 'record' || filter.actions === null || filter.actions.includes(event.action);
}

async function holds(t: TestContext, filters: readonly Filter[], steps: readonly Step[]): Promise<void> {
  const { store, cache, planner } = plannerRig(t);
  for (const [n, filter] of filters.entries()) cache.put(n + 1, filter);
  let open: readonly Scope[] = scopes;
  let emitted: WholeEvent[][] = [];
  const expected: string[] = [];
  /** For each subscription in the order of its deliveries; those of a transaction with the same events stand together. */
  const bySubscription = (sent: readonly string[]): readonly string[] =>
    sent.toSorted((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
  const plan = async (): Promise<void> => {
    await planner.caughtUp();
    for (const transaction of emitted) {
      for (const [n, filter] of filters.entries()) {
        const claim = transaction.filter((event) => isFor(event, filter, open));
        if (claim.length > 0) expected.push(`${n + 1}: ${claim.map(nameOf).join(' ')}`);
      }
    }
    emitted = [];
  };
  let key = 0;
  for (const step of [...steps, { plans: true }]) {
    if ('emits' in step) {
      const events = step.emits.map((event) =>
        event.kind === 'record' ? { ...event, businessKey: `k${++key}`, before: { n: 1 } } : event,
      );
      await emit(store, ...events);
      emitted.push(events);
    }
    if ('opens' in step) {
      await plan();
      open = step.opens;
      cache.open(open);
    }
    if ('plans' in step) await plan();
  }
  assert.deepEqual(bySubscription(sentIn(store)), bySubscription(expected));
  for (const delivery of deliveriesIn(store)) assert.equal(sentOf(store, delivery)?.events.length, delivery.events);
  await store.close();
}

function nameOf(event: WholeEvent): string {
  return event.kind === 'record' ? event.businessKey : event.eventType;
}

test('each delivery has just the events that were planned for it, and all that are for it are in one', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyFilter, { minLength: 1, maxLength: 4 }),
      fc.array(anyStep, { maxLength: 12 }),
      (filters, steps) => holds(t, filters, steps),
    ),
    { numRuns: 60 },
  );
});

test('once planned, a delivery needs no event any more', async (t) => {
  const { store, planner } = plannerRig(t, {});
  await emit(store, recordEvent('a'), recordEvent('b'), recordEvent('c'));
  await planner.caughtUp();
  await store.maintain(() => store.connection.exec('DELETE FROM outbox_waiting; DELETE FROM outbox_events'));
  assert.deepEqual(sentIn(store), ['1: a b c']);
});

test('a delivery is of the scopes of its own events, not of all that its subscription takes', async (t) => {
  const { store, planner } = plannerRig(t, {});
  await emitEach(store, ['a']);
  await emit(store, ...(['PUBLIC', 'RESTRICTED'] as const).map((scope) => recordEvent(scope, 1, { scope })));
  await planner.caughtUp();
  assert.deepEqual(
    deliveriesIn(store).map((delivery) => delivery.scopes),
    ['["PUBLIC"]', '["PUBLIC","RESTRICTED"]'],
  );
});
