/**
 * The contracts for machines: what the product sends matches them by a validator of another language (Python's jsonschema), and
 * AsyncAPI's own parser reads the AsyncAPI document.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Parser } from '@asyncapi/parser';
import type { WholeEvent } from '../../src/hub/outbox/event.fixture.ts';
import { definitionEventTypes, scopes } from '../../src/hub/outbox/event.ts';
import { readElement } from '../../src/hub/webhooks/delivery/contents.fixture.ts';
import { bodyOf } from '../../src/hub/webhooks/delivery/contents.ts';
import { createPinger } from '../../src/hub/webhooks/egress/ping.ts';
import type { Message } from '../../src/hub/webhooks/egress/sender.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import type { Instant } from '../../src/shared/base/instant.ts';

const root = join(import.meta.dirname, '../..');
const load = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));
const ofProto = (name: string): string => join(root, 'proto', name);

const VALIDATOR = `
import json, sys, jsonschema
asked = json.load(sys.stdin)
kind = jsonschema.validators.validator_for(asked['schema'])
kind.check_schema(asked['schema'])
print(json.dumps([[f'{list(e.absolute_path)}: {e.message}' for e in kind(asked['schema']).iter_errors(i)] for i in asked['instances']]))
`;

/** The faults of each instance. */
function faultsIn(schema: unknown, instances: readonly unknown[]): string[][] {
  const input = JSON.stringify({ schema, instances });
  const { status, stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', VALIDATOR], { input, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as string[][];
}

const now = '2026-03-01T09:30:00.250000+00:00' as Instant;
const stamp = { txTime: now, occurredAt: now, changedBy: 'ops', changeReason: '' };
const record: WholeEvent = {
  kind: 'record',
  eventType: 'dictionary.bulk_imported',
  scope: 'PUBLIC',
  dictionary: 'pumps',
  businessKey: 'P-1',
  action: 'created',
  version: 1,
  validFrom: now,
  validTo: '9999-12-31T23:59:59.999999+00:00',
  data: { name: 'Feed pump' },
  before: undefined,
};
const steps = definitionEventTypes.map(
  (eventType): WholeEvent => ({ kind: 'definition', eventType, scope: 'PUBLIC', dictionary: 'pumps', data: {} }),
);

function delivery(events: readonly WholeEvent[]): { readonly events: readonly object[] } {
  const elements = events.map((event) => readElement(event, stamp).element);
  const envelope = { id: 1, nonce: 'a', subscriptionName: 'mes', occurredAt: now };
  return JSON.parse(String(bodyOf(envelope, elements.join())));
}

/** The body of a test-ping. */
async function ping(): Promise<unknown> {
  let sent: Message | undefined;
  const send = async (_to: unknown, _secrets: unknown, message: Message) => {
    sent = message;
    throw new Error('taken');
  };
  const pinger = createPinger({
    sender: { send, close: () => undefined },
    egress: { faults: async () => [] },
    timeoutMs: 1_000,
    clock: systemClock,
    now: () => now,
    randomHex: (bytes) => '0'.repeat(2 * bytes),
  });
  await assert.rejects(pinger({ url: 'https://subscriber.example/', secret: 'x'.repeat(16) }), /taken/);
  return JSON.parse(String(sent?.body));
}

describe('the schema of a webhook delivery', () => {
  const schema = load(ofProto('webhook-delivery.schema.json'));

  it('matches what is sent: records, every step of definitions and drafts, a test', async () => {
    const bodies = [delivery([record]), delivery(steps), await ping()];
    assert.deepEqual(faultsIn(schema, bodies), [[], [], []]);
  });

  it('refuses an unknown field, and a list without events', () => {
    const body = delivery([record]);
    const more = { ...body, events: body.events.map((event) => ({ ...event, previousData: null })) };
    const faults = faultsIn(schema, [more, { ...body, events: [] }]);
    assert.ok(
      faults.every((some) => some.length > 0),
      JSON.stringify(faults),
    );
  });
});

/** Of the parser's severities; hints name newer versions of AsyncAPI. */
const WARNING = 1;

describe('the AsyncAPI document', () => {
  const document = load(ofProto('asyncapi.json')) as {
    readonly channels: Readonly<Record<string, { readonly address: string | null }>>;
  };

  it('is read by the parser of AsyncAPI without a fault', async () => {
    const faultsOf = async (content: object): Promise<string[]> => {
      const found = await new Parser().validate(JSON.stringify(content), { source: ofProto('asyncapi.json') });
      return found
        .filter(({ severity }) => severity <= WARNING)
        .map(({ path, message }) => `${path.join('.')}: ${message}`);
    };
    assert.deepEqual(await faultsOf(document), []);
    const broken = { ...document, channels: { ...document.channels, log: { address: 1 } } };
    assert.equal((await faultsOf(broken)).length, 1, 'a broken document is taken');
  });

  it('names the topics that are used, and only files that exist', () => {
    const addresses = Object.values(document.channels).map(({ address }) => address);
    assert.deepEqual(addresses, [...scopes.map((scope) => `{prefix}.${scope.toLowerCase()}`), '{topic}', null]);
    const files = [...JSON.stringify(document).matchAll(/\.\/([\w-]+(?:\.\w+)+)/g)].map(([, file = '']) => file);
    assert.equal(files.length, 3);
    assert.deepEqual(
      files.filter((file) => !existsSync(ofProto(file))),
      [],
    );
  });
});
