/**
 * No data written under a narrower scope reaches a wider topic or a subscription of wider scopes: random sequences of changes,
 * each text marked with the scope that its dictionary had when the text was written.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { type JsonObject, narrowest, type Scope, scopes } from './outbox/event.ts';
import type { Dictionary } from './refdata/face.ts';
import { outboxRows, type TemporaryRefdata, temporaryRefdata, trusted } from './refdata/refdata.fixture.ts';
import { deliveriesIn, FakeCache, plannerOn, sentOf } from './webhooks/delivery/planner.fixture.ts';

const key = fc.constantFrom('a', 'b');
const scope = fc.constantFrom(...scopes);
/** `fields`: of a few names, so that updates keep, change and drop fields of the version before. */
const fields = fc.uniqueArray(fc.constantFrom('x', 'y', 'z'));
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('scope' as const), scope, title: fc.boolean(), schema: fc.boolean() }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('put' as const), key, fields }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('close' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('bulkClose' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('import' as const),
      key,
      fields,
      close: fc.boolean(),
      repeats: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('draft' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('draftStep' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('title' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const page = { limit: 100, cursor: undefined };

class Writer {
  readonly #at: TemporaryRefdata;
  readonly #name: string;
  #texts = 0;
  #drafts: number[] = [];

  constructor(at: TemporaryRefdata, name: string) {
    this.#at = at;
    this.#name = name;
  }

  get #dictionary(): Dictionary {
    return this.#at.refdata.dictionary(trusted, this.#name);
  }

  /** Never the same twice. */
  #text(scope: Scope = this.#dictionary.scope): string {
    return `written-${scope}-${++this.#texts}`;
  }

  #schema(scope?: Scope): JsonObject {
    return { type: 'object', description: this.#text(scope) };
  }

  #data(names: readonly string[]): JsonObject {
    return Object.fromEntries(names.map((name) => [name, this.#text()]));
  }

  async create(scope: Scope): Promise<void> {
    const wanted = { name: this.#name, title: this.#text(scope), scope, schema: this.#schema(scope) };
    await this.#at.refdata.createDictionary(trusted, wanted, '');
  }

  async take(step: Step): Promise<void> {
    const { refdata } = this.#at;
    switch (step.do) {
      case 'scope': {
        const texts = {
          ...(step.title && { title: this.#text(step.scope) }),
          ...(step.schema && { schema: this.#schema(step.scope) }),
        };
        const patch = { scope: step.scope, confirmWidening: true, ...texts };
        await refdata.updateDictionary(trusted, this.#name, patch, '', undefined);
        return;
      }
      case 'put':
        return this.#put(step.key, step.fields);
      case 'close':
        return this.#close(step.key);
      case 'bulkClose': {
        const open = refdata.records(trusted, this.#name, {}, page).items.map(({ businessKey }) => businessKey);
        if (open.length > 0) await refdata.bulkClose(trusted, this.#name, open, '');
        return;
      }
      case 'import':
        return this.#import(step);
      case 'draft': {
        const { id } = await refdata.createDraft(trusted, this.#name, this.#schema(), this.#text());
        this.#drafts.push(id);
        return;
      }
      case 'draftStep':
        return this.#draftStep();
      case 'title':
        await refdata.updateDictionary(trusted, this.#name, { title: this.#text() }, '', undefined);
    }
  }

  #version(key: string): number | undefined {
    const history = this.#at.refdata.records(trusted, this.#name, {}, page).items;
    return history.find(({ businessKey }) => businessKey === key)?.version;
  }

  async #put(key: string, names: readonly string[]): Promise<void> {
    const { refdata } = this.#at;
    const [version, change] = [this.#version(key), { data: this.#data(names) }];
    if (version === undefined) await refdata.createRecord(trusted, this.#name, key, change);
    else await refdata.updateRecord(trusted, this.#name, key, change, version);
  }

  async #close(key: string): Promise<void> {
    const version = this.#version(key);
    if (version !== undefined) await this.#at.refdata.closeRecord(trusted, this.#name, key, '', version);
  }

  async #import({ key, fields: names, close, repeats }: Step & { readonly do: 'import' }): Promise<void> {
    const { refdata } = this.#at;
    const isOpen = this.#version(key) !== undefined;
    if (close && !isOpen) return;
    const data = this.#data(names);
    const item = { dictionary: this.#name, businessKey: key, ...(close ? { action: 'close' } : { data }) };
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from(JSON.stringify(item));
    };
    await refdata.importBundle(trusted, 'ndjson', '', body());
    if (!repeats || close) return;
    const again = await refdata.importBundle(trusted, 'ndjson', '', body());
    assert.equal(again.unchanged, 1, 'equal data of the same scope is not written again');
  }

  async #draftStep(): Promise<void> {
    const { refdata } = this.#at;
    const id = this.#drafts[0];
    if (id === undefined) return;
    const { state } = refdata.draft(trusted, this.#name, id);
    const next = { draft: 'request-review', inReview: 'decide', approved: 'publish' } as const;
    if (state !== 'draft' && state !== 'inReview' && state !== 'approved') return void this.#drafts.shift();
    const decision = state === 'inReview' ? 'approved' : undefined;
    await refdata.stepDraft(trusted, this.#name, id, next[state], decision, '');
  }
}

/** The narrowest scope under which a text in it was written. */
function writtenUnder(text: string): Scope {
  const found = [...text.matchAll(/written-([A-Z]+)-/g)].map(([, name]) => name as Scope);
  return narrowest('PUBLIC', ...found);
}

function mustNotLeak(what: string, text: string, readers: readonly Scope[]): void {
  const narrow = writtenUnder(text);
  assert.ok(readers.includes(narrow), `${what}, which ${readers.join(', ')} may read, has ${narrow} data: ${text}`);
}

/** Who reads a topic or an event of a scope may hold any narrower data, and no other. */
function upTo(scope: Scope): readonly Scope[] {
  return scopes.slice(0, scopes.indexOf(scope) + 1);
}

it('nothing written under a narrower scope is in an event of a wider topic, or in a delivery to a wider subscription', async (t) => {
  const at = temporaryRefdata(t);
  const { store, clock } = at;
  const cache = new FakeCache();
  const planner = plannerOn(store, cache, clock);
  for (const [place, widest] of scopes.entries()) cache.put(place + 1, { scopes: upTo(widest) });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(scope, fc.array(step, { minLength: 10, maxLength: 40, size: 'max' }), async (first, steps) => {
      const writer = new Writer(at, `d${run++}`);
      await writer.create(first);
      for (const one of steps) await writer.take(one);
      const rows = outboxRows(at).filter(({ dictionary }) => dictionary === `d${run - 1}`);
      for (const { id, scope: topic, body } of rows)
        mustNotLeak(`event ${id}`, JSON.stringify(body), upTo(topic as Scope));
    }),
    { numRuns: 12 },
  );
  await planner.caughtUp();
  const deliveries = deliveriesIn(store);
  for (const delivery of deliveries) {
    const { scopes: readers } = cache.byId(delivery.subscriptionId) ?? { scopes: [] };
    mustNotLeak(`delivery ${delivery.id}`, JSON.stringify(sentOf(store, delivery)), readers);
  }
  // That something was there to leak.
  const rows = outboxRows(at);
  const seen = (action: string, scope?: Scope): number =>
    rows.filter((row) => row.action === action && (scope === undefined || row.scope === scope)).length;
  for (const one of scopes)
    for (const action of ['updated', 'closed']) assert.ok(seen(action, one) > 0, `${one} ${action}`);
  for (const action of ['DefinitionUpdated', 'SchemaDraftDecided']) assert.ok(seen(action) > 0, action);
  assert.ok(deliveries.length > rows.length / 2);
});
