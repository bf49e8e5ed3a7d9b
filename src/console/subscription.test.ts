import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Subscription } from '../shared/gen/http.ts';
import { problemOf } from './problem.ts';
import { acceptedPercent, emptyForm, faultsOf, formOf, isChanged, patchOf, requestOf } from './subscription.ts';

const subscription: Subscription = {
  id: '3',
  name: 'mes',
  url: 'https://mes.example/hook',
  consumer: 'chief',
  scopes: ['PUBLIC'],
  dictionaries: ['pumps', 'site.rooms'],
  actions: null,
  categories: ['dict.record.*'],
  active: true,
  createdAt: '2026-03-01T09:30:00+00:00',
  updatedAt: '2026-03-01T09:30:00+00:00',
  version: 2,
  blocked: '',
};

describe('a subscription as a form', () => {
  it('asks for all where nothing is chosen', () => {
    assert.deepEqual(requestOf({ ...emptyForm, name: 'mes', dictionaries: ' pumps,\n site.rooms ,' }, 'new'), {
      name: 'mes',
      url: '',
      secret: '',
      scopes: null,
      dictionaries: ['pumps', 'site.rooms'],
      actions: null,
      categories: null,
      changeReason: 'new',
    });
    assert.equal(Reflect.get(requestOf({ ...emptyForm, consumer: 'erp' }, ''), 'consumer'), 'erp');
  });

  it('sends only what was changed', () => {
    const before = formOf(subscription);
    assert.equal(isChanged(before, formOf(subscription)), false);
    assert.deepEqual(patchOf(before, before, 'why'), { changeReason: 'why' });
    const form = { ...before, url: 'https://mes.example/other', dictionaries: 'pumps, site.rooms', categories: [] };
    assert.equal(isChanged(form, before), true);
    assert.deepEqual(patchOf(form, before, ''), { url: form.url, categories: null, changeReason: '' });
  });

  it('has each fault at its field, and the others above', () => {
    const reasons = [
      'secret is missing',
      '/url: 127.0.0.1 is no public address',
      '/url: the port 1 is not open',
      '/dictionaries/0 is no name of a dictionary',
      '/consumer names no token that exists',
    ];
    const problem = problemOf(422, JSON.stringify({ title: 'Not valid', detail: '5 faults, see reasons', reasons }));
    const { at, rest } = faultsOf(problem, ['name', 'url', 'secret', 'dictionaries']);
    assert.deepEqual(at, {
      name: '',
      url: 'url: 127.0.0.1 is no public address; url: the port 1 is not open',
      secret: 'secret is missing',
      dictionaries: 'dictionaries/0 is no name of a dictionary',
    });
    assert.deepEqual([rest?.title, rest?.detail, rest?.reasons], ['Not valid', '', [reasons[4]]]);
  });

  it('keeps a problem that is of no field as it is', () => {
    const problem = problemOf(409, JSON.stringify({ title: 'No', detail: 'there is a subscription named "mes"' }));
    assert.deepEqual(faultsOf(problem, ['name']), { at: { name: '' }, rest: problem });
    assert.equal(faultsOf(undefined, ['name']).rest, undefined);
  });
});

describe('the rate of accepted deliveries', () => {
  it('is of those that have ended, and never rounded up to all', () => {
    const rate = (delivered: number, rejected: number, failed: number) =>
      acceptedPercent({ delivered, rejected, failed });
    assert.deepEqual([rate(0, 0, 0), rate(3, 0, 0), rate(0, 1, 2), rate(1, 1, 1)], [null, 100, 0, 33.3]);
    assert.equal(rate(9_999, 0, 1), 99.9);
  });
});
