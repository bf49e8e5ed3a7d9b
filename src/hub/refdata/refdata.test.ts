/** That every fault of a request is reported at once: src/hub/http/input.test.ts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  auditActions,
  everyone,
  insider,
  outboxRows,
  temporaryRefdata,
  tools,
  trusted,
  whole,
  withTools,
} from './refdata.fixture.ts';

describe('a version that waits for its time', () => {
  it('is where a stale write is sent to look: reading gives the one before, again and again', async (t) => {
    const { refdata } = await withTools(t);
    await refdata.createRecord(everyone, 'tools', 'k', { data: { a: 1 } });
    await refdata.updateRecord(everyone, 'tools', 'k', { data: { a: 2 }, validFrom: '2090-01-01T00:00:00Z' }, 1);
    assert.equal(refdata.record(everyone, 'tools', 'k', undefined).version, 1);
    const hint = 'It is valid from 2090-01-01T00:00:00+00:00 on: see its history.';
    const stale = { code: 'STALE_VERSION', hint };
    await assert.rejects(refdata.updateRecord(everyone, 'tools', 'k', { data: {} }, 1), stale);
    await assert.rejects(refdata.closeRecord(everyone, 'tools', 'k', '', 1), stale);
    await refdata.updateRecord(everyone, 'tools', 'k', { data: {} }, 2);
    await assert.rejects(refdata.updateRecord(everyone, 'tools', 'k', { data: {} }, 2), {
      hint: 'Read it again, and decide again.',
    });
  });
});

describe('dictionaries', () => {
  it('are created once, published and audited', async (t) => {
    const at = temporaryRefdata(t);
    const made = await at.refdata.createDictionary(everyone, { ...tools, schema: { type: 'object' } }, 'new hall');
    assert.deepEqual(at.refdata.dictionary(everyone, 'tools'), made);
    assert.equal(made.version, 1);
    await assert.rejects(at.refdata.createDictionary(everyone, tools, ''), { code: 'CONFLICT' });
    assert.deepEqual(
      outboxRows(at).map(({ action, body }) => [action, body['category'], body['data']]),
      [['DefinitionCreated', 'dict.definition.*', made]],
    );
    assert.deepEqual(auditActions(at), ['dictionary.created']);
  });

  it('are changed by who names the version they have, or none', async (t) => {
    const at = temporaryRefdata(t);
    await at.refdata.createDictionary(everyone, { ...tools, schema: { type: 'object' } }, '');
    const changed = await at.refdata.updateDictionary(everyone, 'tools', { schema: null, title: 'T' }, '', 1);
    assert.deepEqual([changed.version, changed.schema, changed.title], [2, null, 'T']);
    await assert.rejects(at.refdata.updateDictionary(everyone, 'tools', { title: 'U' }, '', 1), {
      code: 'STALE_VERSION',
    });
    await assert.rejects(at.refdata.updateDictionary(everyone, 'tools', {}, '', undefined), {
      code: 'INVALID_ARGUMENT',
    });
    assert.equal((await at.refdata.updateDictionary(everyone, 'tools', { title: 'U' }, '', undefined)).version, 3);
    assert.equal(outboxRows(at).at(-1)?.action, 'DefinitionUpdated');
  });

  it('out of sight are not there, and no client puts one out of its own sight', async (t) => {
    const { refdata } = temporaryRefdata(t);
    const secret = { name: 'keys', title: 'Keys', scope: 'RESTRICTED' } as const;
    await assert.rejects(refdata.createDictionary(insider, secret, ''), {
      code: 'PERMISSION_DENIED',
      hint: 'The role refdata-restricted opens it.',
    });
    await refdata.createDictionary(trusted, secret, '');
    await refdata.createDictionary(insider, { ...tools, name: 'inner', scope: 'INTERNAL' }, '');
    await refdata.createDictionary(everyone, tools, '');
    await refdata.createRecord(trusted, 'keys', 'k', { data: {} });
    const names = [everyone, insider, trusted].map((who) =>
      refdata.dictionaries(who, whole).items.map(({ name }) => name),
    );
    assert.deepEqual(names, [['tools'], ['inner', 'tools'], ['inner', 'keys', 'tools']]);
    const gone = { code: 'NOT_FOUND', message: 'there is no dictionary "keys"' };
    assert.throws(() => refdata.dictionary(insider, 'keys'), gone);
    assert.throws(() => refdata.record(insider, 'keys', 'k', undefined), gone);
    assert.throws(() => refdata.records(insider, 'keys', {}, whole), gone);
    assert.throws(() => refdata.history(insider, 'keys', 'k', whole), gone);
    assert.throws(() => refdata.drafts(insider, 'keys', whole), gone);
    await assert.rejects(refdata.createRecord(insider, 'keys', 'l', { data: {} }), gone);
    await assert.rejects(refdata.updateRecord(insider, 'keys', 'k', { data: {} }, 1), gone);
    await assert.rejects(refdata.closeRecord(insider, 'keys', 'k', '', 1), gone);
    await assert.rejects(refdata.bulkClose(insider, 'keys', ['k'], ''), gone);
    await assert.rejects(refdata.createDraft(insider, 'keys', {}, ''), gone);
    await assert.rejects(refdata.updateDictionary(insider, 'keys', { title: 'x' }, '', undefined), gone);
    await assert.rejects(refdata.updateDictionary(insider, 'tools', { scope: 'RESTRICTED' }, '', undefined), {
      code: 'PERMISSION_DENIED',
    });
  });
});

describe('drafts', () => {
  it('go through review, and publishing makes their schema the dictionary’s', async (t) => {
    const at = await withTools(t);
    const { refdata } = at;
    await refdata.createRecord(everyone, 'tools', 'old', { data: { n: 'x' } });
    const schema = { properties: { n: { type: 'number' } } };
    const draft = await refdata.createDraft(everyone, 'tools', schema, 'stricter');
    const step = (name: 'request-review' | 'decide' | 'publish' | 'withdraw', decision?: 'approved' | 'rejected') =>
      refdata.stepDraft(insider, 'tools', draft.id, name, decision, '');
    await assert.rejects(step('publish'), { code: 'CONFLICT' });
    await step('request-review');
    await assert.rejects(step('decide'), { code: 'INVALID_ARGUMENT' });
    await step('decide', 'approved');
    const published = await step('publish');
    assert.deepEqual([published.state, published.createdBy, published.updatedBy], ['published', 'olga', 'ivan']);
    assert.deepEqual(refdata.draft(everyone, 'tools', draft.id), published);
    await assert.rejects(step('withdraw'), { code: 'CONFLICT' });
    const { version, schema: now } = refdata.dictionary(everyone, 'tools');
    assert.deepEqual([version, now], [2, schema]);
    // What is there stays; what comes is checked.
    assert.deepEqual(refdata.record(everyone, 'tools', 'old', undefined).data, { n: 'x' });
    await assert.rejects(refdata.updateRecord(everyone, 'tools', 'old', { data: { n: 'y' } }, 1), {
      code: 'INVALID_ARGUMENT',
      reasons: ['/data/n must be number'],
    });
    const steps = ['Created', 'ReviewRequested', 'Decided', 'Published'].map((name) => `SchemaDraft${name}`);
    assert.deepEqual(
      outboxRows(at).map(({ action }) => action),
      ['DefinitionCreated', 'created', ...steps],
    );
    assert.deepEqual(auditActions(at).slice(1), [
      'draft.created',
      'draft.reviewRequested',
      'draft.approved',
      'draft.published',
    ]);
  });

  it('are listed newest first by cursor, and belong to their dictionary', async (t) => {
    const { refdata } = await withTools(t);
    await refdata.createDictionary(everyone, { ...tools, name: 'other' }, '');
    for (let i = 0; i < 5; i++) await refdata.createDraft(everyone, 'tools', { title: String(i) }, '');
    const first = refdata.drafts(everyone, 'tools', { limit: 3, cursor: undefined });
    const second = refdata.drafts(everyone, 'tools', { limit: 3, cursor: first.nextCursor });
    assert.deepEqual(
      [...first.items, ...second.items].map(({ schema }) => schema['title']),
      ['4', '3', '2', '1', '0'],
    );
    assert.equal(second.nextCursor, undefined);
    assert.throws(() => refdata.draft(everyone, 'other', first.items[0]?.id ?? 0), { code: 'NOT_FOUND' });
    assert.throws(() => refdata.draft(everyone, 'tools', 1.5), { code: 'NOT_FOUND' });
    await assert.rejects(refdata.createDraft(everyone, 'tools', { type: 'x' }, ''), { code: 'INVALID_ARGUMENT' });
  });
});

describe('records', () => {
  it('have who changed them, and why, and the event of a single change', async (t) => {
    const at = await withTools(t);
    const { refdata } = at;
    const key = 'T/1 ключ';
    const seen = [
      await refdata.createRecord(everyone, 'tools', key, { data: { a: 1 }, changeReason: 'new' }),
      await refdata.updateRecord(insider, 'tools', key, { data: { a: 2 } }, 1),
      await refdata.closeRecord(everyone, 'tools', key, 'worn', 2),
    ];
    assert.deepEqual(
      seen.map(({ changedBy, changeReason }) => [changedBy, changeReason]),
      [
        ['olga', 'new'],
        ['ivan', ''],
        ['olga', 'worn'],
      ],
    );
    assert.deepEqual(refdata.history(everyone, 'tools', key, whole).items, [...seen].reverse());
    const types = outboxRows(at).map(({ body }) => body['eventType']);
    assert.deepEqual(
      types.slice(1),
      seen.map(() => 'dictionary.changed'),
    );
  });

  it('that are not valid at a time, and times that cannot be read, are refused', async (t) => {
    const { refdata } = await withTools(t);
    await refdata.createRecord(everyone, 'tools', 'k', { data: { n: 1 }, validFrom: '2020-01-01T02:00:00+02:00' });
    const read = (at?: string, key = 'k') => refdata.record(everyone, 'tools', key, at);
    assert.equal(read('2020-01-01T00:00:00Z').version, 1);
    const hint = 'Its history shows when it is.';
    assert.throws(() => read('2019-12-31T23:59:59.999999Z'), { code: 'NOT_FOUND', hint });
    assert.throws(() => read('yesterday'), { code: 'INVALID_ARGUMENT' });
    assert.throws(() => read(undefined, 'l'), { code: 'NOT_FOUND', hint: '' });
  });

  it('are closed in bulk, all or none, with every fault', async (t) => {
    const at = await withTools(t);
    for (const key of ['a', 'b', 'c']) await at.refdata.createRecord(everyone, 'tools', key, { data: { key } });
    await at.refdata.closeRecord(everyone, 'tools', 'c', '', 1);
    await assert.rejects(at.refdata.bulkClose(everyone, 'tools', ['a', 'x', 'c', 'a'], ''), {
      code: 'INVALID_ARGUMENT',
      reasons: [
        '/businessKeys/1 there is no record "x"',
        '/businessKeys/2 the record "c" is closed already',
        '/businessKeys/3 is there already at /businessKeys/0',
      ],
    });
    assert.equal(at.refdata.records(everyone, 'tools', {}, whole).items.length, 2);
    const { txTime, closed } = await at.refdata.bulkClose(everyone, 'tools', ['a', 'b'], 'stocktaking');
    assert.equal(closed, 2);
    const rows = outboxRows(at).slice(-2);
    assert.deepEqual(
      rows.map(({ businessKey, body }) => [businessKey, body['eventType'], body['txTime'], body['previousData']]),
      ['a', 'b'].map((key) => [key, 'dictionary.changed', txTime, { key }]),
    );
    assert.equal(auditActions(at).at(-1), 'records.bulkClosed');
    await assert.rejects(at.refdata.bulkClose(everyone, 'tools', [], ''), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(at.refdata.bulkClose(everyone, 'tools', Array<string>(10_001).fill('a'), ''), {
      code: 'INVALID_ARGUMENT',
    });
  });
});

it('of two updates with one If-Match that share a transaction the second is stale', async (t) => {
  const { refdata, store } = await withTools(t);
  await refdata.createRecord(everyone, 'tools', 'k', { data: { n: 1 } });
  const transactions: (number | undefined)[] = [];
  store.onCommitted((waiting) => transactions.push(waiting));
  const update = (n: number) => refdata.updateRecord(everyone, 'tools', 'k', { data: { n } }, 1);
  const other = refdata.createRecord(everyone, 'tools', 'other', { data: {} });
  const [first, second] = await Promise.allSettled([update(2), update(3), other]);
  assert.equal(first.status === 'fulfilled' && first.value.version, 2);
  assert.equal(second.status === 'rejected' && (second.reason as { code: string }).code, 'STALE_VERSION');
  assert.deepEqual((await other).version, 1);
  assert.deepEqual(transactions, [2]);
});
