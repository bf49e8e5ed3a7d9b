/** Each command of the hub: the command line, the one request that it makes, the answer, and what it prints of it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { drivesTerminal, testFiles } from '../drive.fixture.ts';
import type { JsonObject } from '../output/json.ts';
import { cli, deadLetter, hub, hubForEach, subscription } from './fake-hub.fixture.ts';

const files = testFiles();
hubForEach(files);
const at = '2026-03-01T09:30:00+00:00';
const schema = files.file('schema.json', '{"type":"object"}');
const secret = files.file('secret', 'a secret of the subscriber\n');

const pumps = {
  name: 'pumps',
  title: 'Pumps\x1b[2J',
  scope: 'PUBLIC',
  version: 2,
  schema: { type: 'object' },
  changedBy: 'anna',
  updatedAt: at,
};
const draft = {
  id: 1,
  dictionary: 'pumps',
  state: 'inReview',
  changeReason: 'adds kw',
  schema: { kw: 1 },
  createdBy: 'anna',
  createdAt: at,
  updatedBy: 'bob\x9b',
  updatedAt: at,
};
const dead = deadLetter(3);
const record = { at, actor: 'anna', action: 'outbox.dlq', subject: 'row 1', details: { id: 1 } };
const mes = subscription('1', { dictionaries: ['pumps', 'valves'], name: 'mes' });
const blocked = subscription('1', { name: 'mes', blocked: 'its consumer has lost the scope INTERNAL\x1b[2J' });
const sub = 'admin/webhooks/subscriptions';
const deadLetters = 'admin/outbox/dead-letters';

/** An answer that is a list is one page of it; null is a 204. */
const reads: readonly [line: string, request: string, answer: JsonObject | readonly JsonObject[], prints: RegExp][] = [
  ['dict list', 'dictionaries?limit=100', [pumps], /^NAME +SCOPE +VERSION +TITLE\npumps +PUBLIC +2 +Pumps\S+\n$/],
  ['dict list', 'dictionaries?limit=100', [], /^there are no dictionaries that you may see\n$/],
  [
    'dict show pumps',
    'dictionaries/pumps',
    pumps,
    /^Dictionary +pumps\n(.*\n)Scope +PUBLIC\nVersion +2, by anna at 2026-\S+ \S+\nSchema\n\{\n {2}"type": "object"\n\}\n$/,
  ],
  ['dict show pumps', 'dictionaries/pumps', { ...pumps, schema: null }, /\nSchema +none: any object is taken\n$/],
  [
    'dict draft list pumps',
    'dictionaries/pumps/drafts?limit=100',
    [draft],
    /^ID +STATE +CHANGED +BY +REASON\n1 +inReview +2026-\S+ \S+ +bob\S+ +adds kw\n$/,
  ],
  ['dict draft list pumps', 'dictionaries/pumps/drafts?limit=100', [], /^it has no drafts\n$/],
  [
    'dict draft show pumps 1',
    'dictionaries/pumps/drafts/1',
    draft,
    /^Draft +1 of pumps\nState +inReview\nReason +adds kw\nCreated +2026-.* by anna\nChanged +2026-.* by bob\S+\nSchema\n\{\n {2}"kw": 1\n\}\n$/,
  ],
  [
    'outbox dead-letters',
    `${deadLetters}?limit=50`,
    [dead],
    /^ID +DIED +RECORD +REASON\n3 +2026-\S+ \S+ +pumps:P-3 updated +larger than .*\n$/,
  ],
  ['outbox dead-letters list --limit 7', `${deadLetters}?limit=7`, [], /^there are no dead letters\n$/],
  [
    'audit --action outbox.dlq --limit 1',
    'admin/audit?action=outbox.dlq&limit=1',
    [record],
    /^WHEN +WHO +ACTION +WHAT +DETAILS\n2026-\S+ \S+ +anna +outbox\.dlq +row 1 +\{"id":1\}\n$/,
  ],
  ['audit', 'admin/audit?limit=50', [], /^there is nothing in the audit\n$/],
  [
    'webhook list',
    `${sub}?limit=50`,
    [mes, blocked, subscription('3', { active: false, dictionaries: ['a', 'b', 'c'] })],
    /^ID +NAME +STATE +TAKES +URL\n1 +mes +active +PUBLIC pumps valves +https:\/\/mes.*\n1 +mes +BLOCKED +PUBLIC +https.*\n3 +site-3 +paused +PUBLIC 3 dictionaries +https/,
  ],
  ['webhook list', `${sub}?limit=50`, [], /^there are no subscriptions\n$/],
  [
    'webhook show 1',
    `${sub}/1`,
    { ...blocked, actions: ['created', 'closed'] },
    /^Subscription +1 \(mes\)\nState +BLOCKED \(no attempt is used up\): its(.*\n)*Dictionaries +all\nActions +created, closed\nCategories +all\n/,
  ],
  [
    'webhook show 1',
    `${sub}/1`,
    mes,
    /\nState +active\nURL +https(.*\n)*Consumer +local, whose(.*\n)*Version +1, since 2026/,
  ],
];

const writes: readonly (readonly [
  line: string,
  request: string,
  body: JsonObject,
  answer: JsonObject | null,
  prints: string,
])[] = [
  [
    `dict create pumps --title Pumps --scope public --schema ${schema}`,
    'POST dictionaries',
    { name: 'pumps', title: 'Pumps', scope: 'PUBLIC', schema: { type: 'object' } },
    pumps,
    'created dictionary pumps',
  ],
  [
    'dict update pumps --title All --no-schema --reason tidy',
    'PATCH dictionaries/pumps',
    { title: 'All', schema: null, changeReason: 'tidy' },
    pumps,
    'updated dictionary pumps to version 2',
  ],
  [
    'dict update pumps --scope PUBLIC --confirm-widening',
    'PATCH dictionaries/pumps',
    { scope: 'PUBLIC', confirmWidening: true },
    pumps,
    'updated dictionary pumps to version 2',
  ],
  [
    `dict draft create pumps --schema ${schema} --reason kw`,
    'POST dictionaries/pumps/drafts',
    { schema: { type: 'object' }, changeReason: 'kw' },
    draft,
    'created draft 1 of pumps',
  ],
  ...(['request-review', 'approve', 'reject', 'publish', 'withdraw'] as const).map((step) => {
    const decision = { approve: 'approved', reject: 'rejected' }[step as string];
    const request = `POST dictionaries/pumps/drafts/1/${decision === undefined ? step : 'decide'}`;
    const body = { ...(decision === undefined ? {} : { decision }), changeReason: 'agreed' };
    const line = `dict draft ${step} pumps 1 --reason agreed`;
    return [line, request, body, { ...draft, state: 'next' }, 'draft 1 of pumps: next'] as const;
  }),
  [
    'outbox dead-letters requeue 1 --reason fixed',
    `POST ${deadLetters}/1/requeue`,
    { changeReason: 'fixed' },
    null,
    'dead letter 1 waits again to be sent',
  ],
  [
    'outbox dead-letters discard 2 --reason test',
    `POST ${deadLetters}/2/discard`,
    { changeReason: 'test' },
    null,
    'dead letter 2 is discarded',
  ],
  [
    `webhook add --name mes --url https://mes.example --scope public --scope INTERNAL --dictionary pumps --dictionary valves --action closed --category record --category dict.draft.* --consumer mes --inactive --reason für --secret-file ${secret}`,
    `POST ${sub}`,
    {
      name: 'mes',
      url: 'https://mes.example',
      consumer: 'mes',
      active: false,
      secret: 'a secret of the subscriber',
      scopes: ['PUBLIC', 'INTERNAL'],
      dictionaries: ['pumps', 'valves'],
      actions: ['closed'],
      categories: ['dict.record.*', 'dict.draft.*'],
      changeReason: 'für',
    },
    mes,
    'added subscription 1 (mes); it sends nothing before lineside webhook resume 1',
  ],
  [
    'webhook update 1 --url https://new.example --all-dictionaries --action created --reason moved --version 7',
    `PATCH ${sub}/1 if "7"`,
    { url: 'https://new.example', dictionaries: null, actions: ['created'], changeReason: 'moved' },
    mes,
    'updated subscription 1 (mes) to version 1',
  ],
  [
    'webhook pause 1 --reason night',
    `PATCH ${sub}/1`,
    { active: false, changeReason: 'night' },
    mes,
    'subscription 1 (mes) is paused: what happens until lineside webhook resume 1 is never sent to it',
  ],
  ['webhook resume 1', `PATCH ${sub}/1`, { active: true }, mes, 'subscription 1 (mes) is resumed'],
  [
    'webhook resume 1',
    `PATCH ${sub}/1`,
    { active: true },
    blocked,
    'subscription 1 (mes) is resumed; but it is BLOCKED: its consumer has lost the scope INTERNAL\\x1b[2J',
  ],
  ['webhook remove 1 --reason abgelöst', `DELETE ${sub}/1 because abgelöst`, {}, null, 'subscription 1 is removed'],
  [
    `webhook rotate-secret 1 --secret-file ${secret} --grace 7200 --reason leak`,
    `POST ${sub}/1/rotate-secret`,
    { secret: 'a secret of the subscriber', graceSeconds: 7200, changeReason: 'leak' },
    mes,
    'the new secret signs what is sent to subscription 1 (mes), for 2 h 0 min the old one as well',
  ],
];

describe('a command that reads', () => {
  for (const [line, request, answer, prints] of reads) {
    it(`${line}: ${String(prints).slice(0, 30)}`, async () => {
      hub.answers[`GET ${request.split('?')[0]}`] = answer;
      const { status, stdout, stderr } = await cli(...line.split(' '));
      assert.deepEqual([status, stderr, hub.asked], [0, '', [`GET /api/v1/${request}`]]);
      assert.match(stdout, prints);
      assert.ok(!drivesTerminal(stdout.replaceAll('\n', '')), stdout);
      const json = (await cli(...line.split(' '), '--json')).stdout.split('\n').slice(0, -1);
      const objects = json.map((one) => JSON.parse(one) as JsonObject);
      assert.deepEqual(Array.isArray(answer) ? objects : objects[0], answer);
    });
  }
});

describe('a command that writes', () => {
  for (const [line, request, body, answer, prints] of writes) {
    it(line.slice(0, 60), async () => {
      const [call = ''] = request.split(/ (?:if|because) /);
      hub.answers[call] = answer;
      const { status, stdout, stderr } = await cli(...line.split(' '));
      assert.deepEqual([status, stdout, stderr], [0, `${prints}\n`, '']);
      const [{ ifMatch, reason, ...written }] = hub.written as [(typeof hub.written)[0]];
      const condition = ifMatch === undefined ? '' : ` if ${ifMatch}`;
      assert.deepEqual(
        [`${written.call}${condition}${reason === '' ? '' : ` because ${reason}`}`, written.body],
        [request, body],
      );
      assert.deepEqual(JSON.parse((await cli(...line.split(' '), '--json')).stdout), answer ?? {});
    });
  }
});
