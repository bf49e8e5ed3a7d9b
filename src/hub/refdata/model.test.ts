/** Random histories against a model: what is stored, what is read as of a time, and the events of the outbox must agree. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { instantOfMs, parseInstant } from '../../shared/base/instant.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { RecordVersion } from './face.ts';
import { everyone, outboxRows, type TemporaryRefdata, temporaryRefdata } from './refdata.fixture.ts';

const keys = ['a', 'b', 'ж'] as const;
type Key = (typeof keys)[number];
const dayMs = 24 * 3_600_000;
const epochMs = 1_700_000_000_000;

const key = fc.constantFrom(...keys);
const data = fc.dictionary(fc.constantFrom('x', 'y', 'z'), fc.constantFrom<number | string | null>(1, 'one', null), {
  noNullPrototype: true,
});
/** Around the fake clock's start, by whole days: so that equal and reversed times come up. */
const day = fc.integer({ min: -400, max: 400 });
const validFrom = fc.option(day, { nil: undefined, freq: 2 });
/** Off by this much from the version there is. */
const stale = fc.constantFrom(0, 0, 0, 1, -1);

const step = fc.oneof(
  fc.record({ do: fc.constant('create' as const), key, data, validFrom }),
  fc.record({ do: fc.constant('update' as const), key, data, validFrom, stale }),
  fc.record({ do: fc.constant('close' as const), key, stale }),
  fc.record({ do: fc.constant('bulkClose' as const), keys: fc.uniqueArray(key, { minLength: 1 }) }),
  fc.record({ do: fc.constant('clock' as const), days: day }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

type Model = Map<string, RecordVersion[]>;

function instantOfDay(days: number): string {
  return instantOfMs(epochMs + days * dayMs);
}

/** What the rules say comes of it: '' or the code of the refusal. */
function expected(model: Model, step: Exclude<Step, { do: 'clock' | 'bulkClose' }>): string {
  const newest = model.get(step.key)?.at(-1);
  if (step.do === 'create') return newest === undefined || newest.action === 'closed' ? '' : 'CONFLICT';
  if (newest === undefined) return 'NOT_FOUND';
  if (step.stale !== 0) return 'STALE_VERSION';
  return newest.action === 'closed' ? 'CONFLICT' : '';
}

async function take(at: TemporaryRefdata, dictionary: string, model: Model, step: Step): Promise<void> {
  const { refdata, clock } = at;
  if (step.do === 'clock') return clock.stepWall(step.days * dayMs);
  if (step.do === 'bulkClose') return takeBulkClose(at, dictionary, model, step.keys);
  const code = expected(model, step);
  const version = model.get(step.key)?.at(-1)?.version ?? 0;
  const change = step.do === 'close' ? undefined : changeOf(step);
  const asked = step.do === 'create' ? 0 : version + step.stale;
  const attempt =
    step.do === 'create'
      ? refdata.createRecord(everyone, dictionary, step.key, changeOf(step))
      : change === undefined
        ? refdata.closeRecord(everyone, dictionary, step.key, '', asked)
        : refdata.updateRecord(everyone, dictionary, step.key, change, asked);
  const result = await attempt.catch((error: { code: string }) => error.code);
  if (typeof result === 'string') return assert.equal(result, code);
  assert.equal('', code);
  check(model, step, result);
  model.set(step.key, [...(model.get(step.key) ?? []), result]);
}

function changeOf(step: { data: JsonObject; validFrom: number | undefined }): { data: JsonObject; validFrom?: string } {
  return { data: step.data, ...(step.validFrom === undefined ? {} : { validFrom: instantOfDay(step.validFrom) }) };
}

/** The version that came of a step, against the one before. */
function check(model: Model, step: Exclude<Step, { do: 'clock' | 'bulkClose' }>, made: RecordVersion): void {
  const before = model.get(step.key)?.at(-1);
  assert.equal(made.version, (before?.version ?? 0) + 1);
  if (step.do === 'close') {
    assert.deepEqual([made.action, made.data, made.validTo], ['closed', before?.data, made.txTime]);
    assert.ok(made.validFrom <= made.txTime);
    return;
  }
  assert.deepEqual(made.data, step.data);
  assert.equal(made.action, step.do === 'create' ? 'created' : 'updated');
  assert.equal(made.validFrom, step.validFrom === undefined ? made.txTime : instantOfDay(step.validFrom));
}

async function takeBulkClose(
  at: TemporaryRefdata,
  dictionary: string,
  model: Model,
  closing: readonly Key[],
): Promise<void> {
  const possible = closing.every((key) => ['created', 'updated'].includes(model.get(key)?.at(-1)?.action ?? ''));
  const result = await at.refdata
    .bulkClose(everyone, dictionary, closing, '')
    .catch((error: { code: string }) => error.code);
  if (typeof result === 'string') return assert.deepEqual([result, possible], ['INVALID_ARGUMENT', false]);
  assert.ok(possible);
  for (const key of closing) {
    const closed = at.refdata.history(everyone, dictionary, key, { limit: 1, cursor: undefined }).items[0];
    assert.ok(closed);
    check(model, { do: 'close', key, stale: 0 }, closed);
    model.set(key, [...(model.get(key) ?? []), closed]);
  }
}

/** The version that holds at `at`: the newest that is valid from then or before, if it is still valid; undefined: none. */
function versionAt(versions: readonly RecordVersion[], at: string): RecordVersion | undefined {
  const newest = versions.findLast(({ validFrom }) => validFrom <= at);
  return newest !== undefined && at < newest.validTo ? newest : undefined;
}

function compare({ refdata, store }: TemporaryRefdata, dictionary: string, model: Model): void {
  const written = [...model.values()].flat();
  const moments = new Set(written.flatMap(({ validFrom, validTo, txTime }) => [validFrom, validTo, txTime]));
  for (const moment of [...moments, instantOfDay(0), store.now()]) {
    const at = parseInstant(moment);
    const valid = keys.flatMap((key) => versionAt(model.get(key) ?? [], moment) ?? []);
    const sorted = valid.sort((a, b) => Buffer.compare(Buffer.from(a.businessKey), Buffer.from(b.businessKey)));
    assert.deepEqual(refdata.records(everyone, dictionary, { at }, { limit: 10, cursor: undefined }).items, sorted);
    for (const version of valid)
      assert.deepEqual(refdata.record(everyone, dictionary, version.businessKey, at), version);
  }
  for (const [key, versions] of model)
    assert.deepEqual(
      refdata.history(everyone, dictionary, key, { limit: 1_000, cursor: undefined }).items,
      [...versions].reverse(),
    );
}

/** One row for each version and no other; versions without a gap; times that only go up. */
function compareOutbox(at: TemporaryRefdata, dictionary: string, model: Model): void {
  const rows = outboxRows(at).filter((row) => row.dictionary === dictionary && row.businessKey !== '');
  assert.equal(rows.length, [...model.values()].flat().length);
  let last = '';
  for (const { body } of rows) {
    const time = JSON.stringify(body['txTime']);
    assert.ok(time >= last, 'times of transactions never go back');
    last = time;
  }
  for (const [key, versions] of model) {
    const events = rows.filter((row) => row.businessKey === key).map(({ body }) => body);
    assert.deepEqual(
      events.map((body) => [
        body['version'],
        body['action'],
        body['data'],
        body['validFrom'],
        body['validTo'],
        body['txTime'],
      ]),
      versions.map((v) => [v.version, v.action, v.data, v.validFrom, v.validTo, v.txTime]),
    );
    versions.forEach(({ version }, place) => assert.equal(version, place + 1));
    assert.equal(new Set(versions.map(({ txTime }) => txTime)).size, versions.length);
    events.forEach((body, place) =>
      assert.deepEqual(body['previousData'], previous(versions[place - 1], versions[place])),
    );
  }
}

function previous(before: RecordVersion | undefined, after: RecordVersion | undefined): JsonObject | null {
  if (after?.action === 'created' || before === undefined) return null;
  if (after?.action === 'closed') return before.data;
  return Object.fromEntries(
    Object.entries(before.data).filter(([name, value]) => !Object.is(after?.data[name], value)),
  );
}

it('random histories are stored, read as of any time and published as the model says', async (t) => {
  const at = temporaryRefdata(t);
  let run = 0;
  let changes = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60, size: 'max' }), async (steps) => {
      const dictionary = `d${run++}`;
      const model: Model = new Map();
      await at.refdata.createDictionary(everyone, { name: dictionary, title: 'T', scope: 'PUBLIC' }, '');
      for (const one of steps) await take(at, dictionary, model, one);
      compare(at, dictionary, model);
      compareOutbox(at, dictionary, model);
      changes += [...model.values()].flat().length;
    }),
    { numRuns: 60 },
  );
  assert.ok(changes > 300, `hardly anything happened: ${changes} changes`);
});
