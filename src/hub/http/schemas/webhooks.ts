/** The shapes of webhooks: what is asked, what is answered. */
import { type TSchema, Type } from '@sinclair/typebox';
import { DICTIONARY_NAME, definitionEventTypes, scopes } from '../../outbox/event.ts';
import {
  actions,
  categories,
  causes,
  deliveryStates,
  maxDeliveryEvents,
  SUBSCRIPTION_NAME,
} from '../../webhooks/face.ts';
import { MAX_FILTER_ITEMS } from '../limits.ts';
import { businessKey } from './refdata.ts';
import {
  changeReason,
  choice,
  count,
  dictionaryName,
  exact,
  orNull,
  page,
  reason,
  redacted,
  time,
  validatedByDomain,
  version,
} from './shapes.ts';

function filter(items: object, description: string, options: object = {}) {
  return Type.Optional(
    Type.Unsafe<readonly string[] | null>({
      [validatedByDomain]: true,
      type: ['array', 'null'],
      items: { type: 'string', ...items, [validatedByDomain]: true },
      maxItems: MAX_FILTER_ITEMS,
      description,
      ...options,
    }),
  );
}

const name = Type.String({
  [validatedByDomain]: true,
  minLength: 1,
  maxLength: 128,
  pattern: SUBSCRIPTION_NAME,
  description: 'For people; sent along with each delivery. Printable ASCII.',
  examples: ['ERP of the site'],
});
const url = Type.String({
  [validatedByDomain]: true,
  minLength: 1,
  maxLength: 2_048,
  pattern: '^[Hh][Tt][Tt][Pp][Ss]://',
  description: 'Where deliveries are posted: https, and public unless webhooks.allow_cidrs opens the range.',
  examples: ['https://example.com/hooks/lineside'],
});
const secret = Type.String({
  [validatedByDomain]: true,
  minLength: 16,
  maxLength: 1_024,
  description: 'Key of the HMAC-SHA256 signature, 16 to 1,024 bytes of UTF-8; never shown again.',
});
const filters = {
  scopes: filter(
    { enum: scopes },
    'Each must be open to the consumer and to the caller; default, and null: all that are.',
    {
      minItems: 1,
    },
  ),
  dictionaries: filter({ pattern: DICTIONARY_NAME }, 'Names; null or empty: all.'),
  actions: filter({ enum: actions }, 'Of record events; null or empty: all.'),
  categories: filter({ enum: categories }, 'null or empty: all.'),
};
const active = Type.Optional(
  Type.Boolean({ default: true, description: 'false: events of that time are not delivered, also later.' }),
);

export const WebhookBody = {
  subscription: exact(
    {
      name,
      url,
      secret,
      consumer: Type.Optional(
        Type.String({
          [validatedByDomain]: true,
          minLength: 1,
          description: 'Name of the token whose scopes bound it; default: the caller.',
        }),
      ),
      ...filters,
      active,
      changeReason,
    },
    { [redacted]: true, [validatedByDomain]: true },
  ),
  subscriptionPatch: exact(
    { name: Type.Optional(name), url: Type.Optional(url), ...filters, active, changeReason },
    { [redacted]: true },
  ),
  rotation: exact(
    {
      secret,
      graceSeconds: Type.Optional(
        Type.Integer({
          [validatedByDomain]: true,
          minimum: 0,
          maximum: 2_592_000,
          default: 86_400,
          description: 'How long the old secret signs as well; 0: not at all.',
        }),
      ),
      changeReason,
    },
    { [redacted]: true },
  ),
  resend: exact({
    from: Type.Optional(time('occurredAt at or after; default: from the first.')),
    to: Type.Optional(time('occurredAt before; default: up to the last.')),
    states: Type.Optional(
      Type.Array(choice(['rejected', 'failed', 'delivered'], 'How they ended.'), {
        minItems: 1,
        maxItems: 3,
        description: 'Default: rejected and failed.',
      }),
    ),
    changeReason: reason(),
  }),
  ping: exact({ url, secret }, { [redacted]: true }),
} as const;

export const WebhookQuery = {
  deliveries: exact({
    state: Type.Optional(choice(deliveryStates, 'Only those in this state.')),
    subscription: Type.Optional(Type.String({ description: 'Only those of the subscription with this id.' })),
    statusCode: Type.Optional(
      Type.Integer({ minimum: 100, maximum: 599, description: 'Only those whose last attempt was answered so.' }),
    ),
    ...page,
  }),
} as const;

export const subscriptionId = Type.String({ description: 'id of the subscription.', examples: ['3'] });
export const deliveryId = Type.String({
  description: 'Unique, the same on every attempt: subscribers recognize repeats by it.',
  examples: ['1042-9f86d081884c7d65'],
});
function listOrAll(items: object, description: string): TSchema {
  return Type.Unsafe<unknown>({ type: ['array', 'null'], items: { type: 'string', ...items }, description });
}

const attempt = exact({
  attempt: Type.Integer({ minimum: 1 }),
  at: time('When it began.'),
  elapsedMs: count('Milliseconds it took.'),
  statusCode: orNull(Type.Integer(), 'null: there was no answer.'),
  cause: orNull(choice(causes, 'What it failed of.'), 'null: it was accepted.'),
  message: Type.String({ description: 'In words; empty where it was accepted.' }),
  responseBody: orNull(
    Type.String(),
    'The first 4 KiB of an answer that did not accept; null: none is kept, or the caller may not read the body, which it may quote. null in lists.',
  ),
});

const delivery = {
  deliveryId,
  subscription: subscriptionId,
  subscriptionName: Type.String(),
  state: choice(deliveryStates, 'rejected and failed are for review.'),
  occurredAt: time('When it was made.'),
  events: count('How many it holds.'),
  firstEvent: orNull(
    exact({
      eventType: Type.String({ description: 'As it is sent.' }),
      dictionary: Type.String(),
      businessKey: orNull(Type.String(), 'null: it is of a definition or a draft.'),
      action: orNull(choice(actions, 'The change.'), 'null: it is of a definition or a draft.'),
    }),
    'What it is of; null: not for the caller’s scopes, not kept any more, or behind 4 MiB of events in the page.',
  ),
  attempts: count('Made so far.'),
  nextAttemptInSeconds: orNull(Type.Number({ minimum: 0 }), '0: due; null: there is none.'),
  endedAt: orNull(time('When it was delivered, rejected or failed.'), 'null: it waits.'),
  lastAttempt: orNull(attempt, 'null: there was none yet.'),
};

const schemaVersion = Type.String({
  pattern: '^1\\.[0-9]+\\.[0-9]+$',
  description: 'Of the event, semver; a major increase is a breaking change.',
});
const data = (description: string) => Type.Object({}, { additionalProperties: true, description });
/** The elements of a delivery's events. The topic event (proto/dictionary-changed.schema.json) has more fields. */
const events = {
  record: exact(
    {
      schemaVersion,
      eventType: Type.Literal('dictionary.changed'),
      dictionary: dictionaryName,
      businessKey,
      action: choice(actions, 'The change.'),
      version,
      validFrom: time('From when the version is valid.'),
      data: data('The new version of the record; closed: its last.'),
    },
    { title: 'A change of a record', description: 'Category dict.record.*' },
  ),
  definition: exact(
    {
      schemaVersion,
      eventType: choice(definitionEventTypes, 'The step.'),
      category: choice(['dict.definition.*', 'dict.draft.*'], 'A definition, or a draft of a schema.'),
      dictionary: dictionaryName,
      occurredAt: time('When it happened, by the clock of the box.'),
      changedBy: Type.String({ minLength: 1, description: 'Name of the token; "local" on the Unix socket.' }),
      data: data('The definition or draft after the step.'),
    },
    { title: 'A step of a definition or draft', description: 'Categories dict.definition.* and dict.draft.*' },
  ),
  ping: exact(
    {
      schemaVersion,
      eventType: Type.Literal('test.ping'),
      occurredAt: time('When the test was made.'),
      data: data('Empty.'),
    },
    { title: 'A test', description: 'Sent by test-ping alone.' },
  ),
};

export const webhookComponents = {
  WebhookPayload: exact(
    {
      deliveryId: Type.String({ description: 'The same on every attempt: drop a delivery that you have.' }),
      subscriptionName: Type.String({ description: 'name of the subscription.' }),
      occurredAt: time('Of the transaction, by the clock of the box.'),
      events: Type.Array(Type.Union([events.record, events.definition, events.ping]), {
        minItems: 1,
        maxItems: maxDeliveryEvents,
        description: 'Of one transaction, in their order.',
      }),
    },
    { description: 'What is posted to subscribers.' },
  ),
  Subscription: exact({
    id: subscriptionId,
    name: Type.String(),
    url: Type.String(),
    consumer: Type.String({ description: 'Name of the token whose scopes bound it.' }),
    scopes: Type.Array(choice(scopes, 'Scope of the dictionary.')),
    dictionaries: listOrAll({}, 'null: all.'),
    actions: listOrAll({ enum: actions }, 'null: all.'),
    categories: listOrAll({ enum: categories }, 'null: all.'),
    active: Type.Boolean(),
    createdAt: time('When it was made.'),
    updatedAt: time('When it was last changed.'),
    version,
    blocked: Type.String({ description: 'Why nothing is sent to it although it is active; empty: it is served.' }),
  }),
  Delivery: exact(delivery),
  DeliveryDetail: exact({
    ...delivery,
    body: orNull(
      Type.String(),
      'The exact text that is sent; null: not for the caller’s scopes, or not kept any more.',
    ),
    attemptList: Type.Array(attempt, { description: 'Every attempt, the first one first.' }),
  }),
  DeliveryResults: exact({
    since: orNull(time('When the oldest of them was made.'), 'null: there are none.'),
    deliveries: count('How many were counted: the newest 10,000 of all subscriptions.'),
    subscriptions: Type.Array(
      exact({
        subscription: subscriptionId,
        delivered: count('Accepted.'),
        rejected: count('For review.'),
        failed: count('For review.'),
        waiting: count('Pending and retrying.'),
      }),
      { description: 'All subscriptions.' },
    ),
  }),
  Resent: exact({ deliveries: count('How many are sent again.') }),
  WebhookStatus: exact({
    subscriptions: count('All.'),
    activeSubscriptions: count('Active.'),
    blockedSubscriptions: count(
      'Of the active ones, those to which nothing is sent: the consumer is gone or has lost a scope, or the secret cannot be read.',
    ),
    unplannedEvents: count('Outbox events of which no deliveries are made yet.'),
    waiting: count('Deliveries, pending and retrying.'),
    oldestDueSeconds: Type.Number({ minimum: 0, description: 'How long the one due longest has been due.' }),
    inFlight: count('Attempts under way.'),
    rejected: count('Deliveries for review.'),
    failed: count('Deliveries for review.'),
    offline: Type.Boolean({
      description: 'true: there is no route, or no remote host takes a connection (of at least two); deliveries wait.',
    }),
    deliveredTotal: count('Since the start.'),
    plannedTotal: count('Since the start.'),
    attemptsTotal: Type.Object(
      Object.fromEntries(['accepted', ...causes].map((how) => [how, count('Since the start.')])),
    ),
    historyBytes: count('Of kept answers and of the events of ended deliveries, the latter as of the last sweep.'),
  }),
  PingResult: exact({
    success: Type.Boolean({ description: 'Whether the URL answered 200, 201, 202 or 204 in time.' }),
    statusCode: orNull(Type.Integer(), 'null: there was no answer.'),
    responseBody: Type.String({ description: 'The first 4 KiB.' }),
    elapsedMs: count('Milliseconds it took.'),
    error: Type.Optional(
      exact({
        kind: choice(causes, 'What it failed of.'),
        message: Type.String(),
        reasons: Type.Optional(Type.Array(Type.String(), { description: 'Of ssrf: each rule that was broken.' })),
      }),
    ),
  }),
} as const satisfies Readonly<Record<string, TSchema>>;
