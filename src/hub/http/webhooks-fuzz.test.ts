/** Whatever is sent to register, change, rotate and ping: never a fault of the service, never a word of the secret. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { codePoint } from '../../shared/base/text.fixture.ts';
import { type Answer, startTestServer } from './server.fixture.ts';

const hooks = '/api/v1/admin/webhooks';
const MARK = 'Tr0ub4dor';

const junk = fc.jsonValue({ maxDepth: 2 });
/** Of the right type far more often than not, so that whole requests are. */
const mostly = (right: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 14, arbitrary: right }, { weight: 1, arbitrary: junk });
const marked = fc.string({ unit: codePoint, maxLength: 40 }).map((text) => `${MARK}${text.toWellFormed()}`);
const secret = fc.oneof(
  { weight: 20, arbitrary: marked },
  fc.constantFrom(MARK, MARK.repeat(20), MARK.repeat(200)),
  fc.constantFrom([MARK], { a: MARK }, [[{ a: [MARK] }]]),
);
const choices = fc.constantFrom('PUBLIC', 'RESTRICTED', 'closed', 'dict.record.*', '');
const filter = mostly(fc.oneof(fc.array(choices, { maxLength: 40 }), fc.constant(null)));
const url = mostly(
  fc.oneof(
    fc.webUrl({ validSchemes: ['https'] }),
    fc.constantFrom('https://10.0.0.1/', 'https://a b', '', `https://${MARK}@x/`),
  ),
);
const filters = { scopes: filter, dictionaries: filter, actions: filter, categories: filter };
const rest = { ...filters, active: mostly(fc.boolean()), changeReason: mostly(fc.string({ maxLength: 20 })) };
const name = mostly(fc.string({ maxLength: 140 }));
const stray = fc.oneof(
  { weight: 9, arbitrary: fc.constant({}) },
  fc.constantFrom({ Secret: MARK }, { '': MARK }, { secret: { secret: MARK } }, { __proto__: null, toString: MARK }),
);
const grace = mostly(fc.integer());
// Of those with all optional fields next to none is taken.
const registration = fc.oneof(
  fc.record({ name, url, secret }),
  fc.record({ name, url, secret, consumer: mostly(choices), ...rest }, { requiredKeys: ['secret', 'name', 'url'] }),
);
const patch = fc.oneof(fc.record({ name, url }), fc.record({ name, url, ...rest }, { requiredKeys: [] }));
const rotation = fc.record(
  { secret, graceSeconds: grace, changeReason: rest.changeReason },
  { requiredKeys: ['secret'] },
);
const ping = fc.record({ url, secret }, { requiredKeys: ['secret'] });
const one = `${hooks}/subscriptions/1`;
const requests = fc.oneof(
  ...(
    [
      ['POST', `${hooks}/subscriptions`, registration],
      ['PATCH', one, patch],
      ['POST', `${one}/rotate-secret`, rotation],
      ['POST', `${hooks}/test-ping`, ping],
    ] as const
  ).map(([method, path, body]) => {
    const whole = fc.tuple(body, stray).map(([fields, more]): unknown => ({ ...fields, ...more }));
    return fc.record({ method: fc.constant(method), path: fc.constant(path), json: mostly(whole) });
  }),
);

function authenticate({ status, json, text, headers }: Answer, sent: string): void {
  const said = `${status} ${text} to ${sent}`;
  // 409: a subscription of that name is there already.
  assert.ok([200, 201, 400, 404, 409, 422].includes(status), said);
  assert.equal(
    headers['content-type']?.startsWith(status < 300 ? 'application/json' : 'application/problem+json'),
    true,
  );
  if (status === 422) {
    const reasons = json.reasons as readonly unknown[];
    assert.ok(reasons.length > 0 && reasons.every((reason) => typeof reason === 'string' && reason !== ''), said);
    assert.equal(new Set(reasons).size, reasons.length, said);
  }
  if (status >= 400) assert.ok(!text.includes(MARK), said);
  // A subscription shows its URL, and nothing else of what was marked.
  else assert.ok(!JSON.stringify({ ...json, url: '' }).includes(MARK), said);
}

it('registrations, changes, rotations and pings of any shape end well or in reasons, without the secret', async (t) => {
  const { ask } = await startTestServer(t);
  const made = await ask('POST', `${hooks}/subscriptions`, { name: 'a', url: 'https://a', secret: 'x'.repeat(16) });
  assert.equal(made.status, 201);
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(requests, async ({ method, path, json }) => {
      const answer = await ask(method, path, json);
      authenticate(answer, `${method} ${path} ${JSON.stringify(json)}`);
      const kind = `${path.split('/').at(-1)} ${answer.status}`;
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
    }),
    { numRuns: 600 },
  );
  const expected = ['subscriptions 201', '1 200', 'rotate-secret 200', 'test-ping 200'];
  for (const kind of [...expected, ...expected.map((kind) => kind.replace(/\d+$/, '422'))])
    assert.ok((seen.get(kind) ?? 0) > 0, `no ${kind}: ${JSON.stringify([...seen])}`);
});
