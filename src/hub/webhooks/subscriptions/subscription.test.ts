import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Scope } from '../../outbox/event.ts';
import type { SubscriptionPatch, SubscriptionRequest } from '../face.ts';
import {
  changesOf,
  patchedTerms,
  patchFaults,
  requestFaults,
  rotationFaults,
  type Terms,
  termsOf,
} from './subscription.ts';

const open: readonly Scope[] = ['PUBLIC', 'INTERNAL'];
const bounds = { consumer: open, caller: open };
const gone = { consumer: undefined, caller: open };

function asked(changes: Partial<SubscriptionRequest>): SubscriptionRequest {
  return { name: 'ERP', url: 'https://erp.example/', secret: 's'.repeat(16), ...changes };
}

describe('a request', () => {
  const names = (count: number): string[] => Array.from({ length: count }, (_, n) => `d${n}`);
  const fine: readonly Partial<SubscriptionRequest>[] = [
    {},
    { name: '!' },
    { name: 'a b' },
    { name: `~${' '.repeat(126)}~` },
    { secret: 'ß'.repeat(8) },
    { secret: 's'.repeat(1_024) },
    { secret: '\u{1f511}'.repeat(256) },
    { scopes: null, dictionaries: null, actions: null, categories: null },
    { scopes: ['INTERNAL'], dictionaries: [], actions: [], categories: [] },
    { dictionaries: ['a', '0', 'a'.repeat(128), 'a._-'] },
    { dictionaries: names(1_000) },
    { actions: ['closed', 'created', 'updated'], categories: ['dict.draft.*'], active: false },
  ];
  for (const changes of fine) {
    it(`may have ${JSON.stringify(changes).slice(0, 80)}`, () => {
      assert.deepEqual(requestFaults(asked(changes), bounds), []);
    });
  }

  const nameFault = '/name must be 1 to 128 printable ASCII characters with no space at either end';
  const secretFault = '/secret must have 16 to 1024 bytes in UTF-8';
  const dictionaryFault = 'is no name of a dictionary: a-z, 0-9, ".", "_", "-", at most 128 characters';
  const faulty: readonly [Partial<SubscriptionRequest>, readonly string[]][] = [
    ...['', ' ', ' a', 'a ', 'a\n', 'a\tb', 'ä', 'a\u00a0b', '\u007f', 'x'.repeat(129), 'a\0b'].map(
      (name): [Partial<SubscriptionRequest>, readonly string[]] => [{ name }, [nameFault]],
    ),
    ...['', 's'.repeat(15), 's'.repeat(1_025), 'ß'.repeat(513), 's'.repeat(1_000_000)].map(
      (secret): [Partial<SubscriptionRequest>, readonly string[]] => [{ secret }, [secretFault]],
    ),
    [{ secret: `${'s'.repeat(20)}\ud800` }, ['/secret has half of a surrogate pair, which is no character']],
    [{ scopes: [] }, ['/scopes must not be empty']],
    [
      { scopes: ['PUBLIC', 'public', 'RESTRICTED'] },
      ['/scopes/1 must be one of PUBLIC, INTERNAL, RESTRICTED', '/scopes/2 is not open to the consumer'],
    ],
    [{ dictionaries: ['a', 'A', '', '-a'] }, [1, 2, 3].map((at) => `/dictionaries/${at} ${dictionaryFault}`)],
    [{ dictionaries: ['a\n'] }, [`/dictionaries/0 ${dictionaryFault}`]],
    [{ dictionaries: ['a'.repeat(129)] }, [`/dictionaries/0 ${dictionaryFault}`]],
    [{ dictionaries: names(1_001) }, ['/dictionaries must have at most 1000 items']],
    [{ actions: ['deleted'] }, ['/actions/0 must be one of created, updated, closed']],
    [{ actions: Array<string>(5_000).fill('x') }, ['/actions must have at most 1000 items']],
    [
      { categories: ['dict.record.created', 'dict.record.*'] },
      ['/categories/0 must be one of dict.record.*, dict.definition.*, dict.draft.*'],
    ],
  ];
  for (const [changes, reasons] of faulty) {
    it(`may not have ${JSON.stringify(changes).slice(0, 80)}`, () => {
      assert.deepEqual(requestFaults(asked(changes), bounds), reasons);
    });
  }

  it('takes whatever is open where it names no scopes, and each item of a list once', () => {
    const [name, url] = ['ERP', 'https://erp.example/'];
    const all = { dictionaries: null, actions: null, categories: null };
    assert.deepEqual(termsOf(asked({}), open), { name, url, active: true, scopes: open, ...all });
    const given = {
      scopes: ['INTERNAL', 'PUBLIC', 'INTERNAL'],
      dictionaries: ['b', 'a', 'b'],
      actions: [],
      categories: ['dict.draft.*', 'dict.draft.*'],
    };
    const lists = { scopes: open, dictionaries: ['b', 'a'], actions: null, categories: ['dict.draft.*'] };
    const terms = termsOf(asked({ ...given, active: false }), ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    assert.deepEqual(terms, { name, url, active: false, ...lists });
  });
});

describe('a patch', () => {
  const terms: Terms = {
    name: 'ERP',
    url: 'https://erp.example/',
    active: true,
    scopes: ['PUBLIC'],
    dictionaries: ['a'],
    actions: ['created'],
    categories: null,
  };

  it('must name something, and is judged as a request is', () => {
    const before = terms.scopes;
    assert.deepEqual(patchFaults({}, bounds, before), ['/name, /url, /active or a filter must be given']);
    assert.deepEqual(patchFaults({ active: false }, gone, before), [], 'also when the consumer is gone');
    assert.equal(patchFaults({ name: ' ', scopes: ['RESTRICTED'], actions: ['x'] }, bounds, before).length, 3);
    assert.deepEqual(patchFaults({ scopes: null }, gone, before), [
      '/scopes cannot be chosen: the token that is its consumer is gone',
    ]);
  });

  it('of a caller that may not read one of its scopes can only stop it or remove that scope', () => {
    const has = ['PUBLIC', 'RESTRICTED'] as const;
    const faults = (patch: SubscriptionPatch): readonly string[] => patchFaults(patch, bounds, has);
    for (const patch of [{ active: false }, { scopes: ['PUBLIC'] }, { scopes: null, url: 'https://other.example/' }]) {
      assert.deepEqual(faults(patch), [], JSON.stringify(patch));
    }
    const other = [
      { url: 'https://other.example/' },
      { active: true },
      { name: 'MES' },
      { active: false, actions: null },
    ];
    for (const patch of other) {
      assert.match(faults(patch).join(), /^\/scopes has RESTRICTED, which you may not read: .*refdata-restricted$/);
    }
  });

  const changes: readonly [SubscriptionPatch, Partial<Terms>][] = [
    [{ active: false }, { active: false }],
    [{ url: 'https://other.example/' }, { url: 'https://other.example/' }],
    [{ name: 'MES' }, { name: 'MES' }],
    [{ scopes: null }, { scopes: ['PUBLIC', 'INTERNAL'] }],
    [{ dictionaries: [] }, { dictionaries: null }],
    [{ dictionaries: null }, { dictionaries: null }],
    [{ actions: ['closed'] }, { actions: ['closed'] }],
    [{ categories: ['dict.record.*'] }, { categories: ['dict.record.*'] }],
    [{ name: 'ERP', dictionaries: ['a', 'a'], actions: ['created'], categories: [] }, {}],
  ];
  for (const [patch, changed] of changes) {
    it(`of ${JSON.stringify(patch)} changes that alone`, () => {
      const after = patchedTerms(terms, patch, open);
      assert.deepEqual(after, { ...terms, ...changed });
      assert.deepEqual(changesOf(terms, after), changed);
    });
  }
});

it('a rotation has a grace of whole seconds, up to 30 days', () => {
  const secret = 's'.repeat(16);
  for (const graceSeconds of [0, 1, 2_592_000]) assert.deepEqual(rotationFaults({ secret, graceSeconds }), []);
  for (const graceSeconds of [-1, 0.5, 2_592_001, Number.NaN, Infinity]) {
    assert.deepEqual(rotationFaults({ secret, graceSeconds }), [
      '/graceSeconds must be a whole number from 0 to 2592000',
    ]);
  }
  assert.equal(rotationFaults({ secret: '', graceSeconds: -1 }).length, 2);
});
