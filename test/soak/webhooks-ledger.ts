/**
 * What the webhooks owe: each committed event once to each subscription that it is for, in a delivery that keeps its bytes.
 * Held against everything that the subscriber was sent, and with the state that the interface shows. Throws at the first thing that
 * does not hold.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Delivery as ShownDelivery } from '../../src/shared/gen/http.ts';
import type { ReceivedRequest } from '../e2e/webhook-receiver.ts';
import { rowsOf } from './outbox-ledger.ts';

export interface Filter {
  readonly scopes: readonly string[];
  readonly dictionaries: readonly string[] | null;
  readonly actions: readonly string[] | null;
  readonly categories: readonly string[] | null;
}

/** As the database has it. */
export interface CommittedEvent {
  readonly id: number;
  readonly txTime: string;
  readonly category: string;
  readonly scope: string;
  readonly dictionary: string;
  readonly action: string;
  /** Of the event with all its fields. */
  readonly bytes: number;
  /** Of its element in a delivery. */
  readonly digest: string;
}

export interface Taker {
  readonly id: string;
  readonly path: string;
  /** From the event after each `after` on it is so; undefined: nothing is for it. */
  readonly rules: { readonly after: number; readonly filter: Filter | undefined }[];
}

/** A time in which attempts were cancelled, by the kernel's monotonic clock in s: what was under way may be sent again. */
export interface Interruption {
  readonly from: number;
  to: number;
}

export type WebhookFigures = ReturnType<typeof settleWebhooks>;

/** As the README promises them. */
const MOST_EVENTS = 500;
const MOST_BYTES = 1024 * 1024;
/** What a body has besides its events, at most. */
const FRAME_BYTES = 512;

/** A cancelled request may still be in flight, or be read late. No hub restarts so fast. */
const ON_ITS_WAY_S = 0.4;

interface Delivery {
  readonly id: string;
  readonly raw: Buffer;
  readonly requests: ReceivedRequest[];
  readonly events: readonly CommittedEvent[];
}

/** Everything there is, while nothing is in flight. `shown`: all deliveries that the interface lists. */
export function settleWebhooks(
  takers: readonly Taker[],
  committed: readonly CommittedEvent[],
  requests: readonly ReceivedRequest[],
  shown: readonly ShownDelivery[],
  interruptions: readonly Interruption[],
) {
  const byDigest = new Map(committed.map((event) => [event.digest, event]));
  assert.equal(byDigest.size, committed.length, 'each event has a content of its own');
  const whole = requests.filter(({ complete }) => complete);
  for (const { faults, path, n } of whole) assert.deepEqual(faults, [], `request ${n} to ${path}`);
  const paths = new Set(takers.map(({ path }) => path));
  assert.ok(
    whole.every(({ path }) => paths.has(path)),
    'no path without a subscription is called',
  );
  const figures = {
    events: committed.length,
    deliveries: 0,
    severalEvents: 0,
    attempts: 0,
    /** Accepted, and sent again because the hub was ended, or the subscription switched off, before that was stored. */
    acceptedAgain: 0,
    /** How long before it the oldest of them was answered, in s: as long as that was not stored. */
    unstoredS: 0,
    /** deliveryIds of those that were sent again without that: an attempt of theirs must have run out of time. */
    late: [] as string[],
    requests: whole.length,
    broken: requests.length - whole.length,
  };
  const shownOf = Map.groupBy(shown, ({ subscription }) => subscription);
  for (const taker of takers) {
    const deliveries = deliveriesOf(taker, whole, byDigest);
    everyEventOnce(taker, deliveries, committed, forReview(shownOf.get(taker.id) ?? []));
    for (const delivery of deliveries) {
      const { again, unexplained, unstoredS } = acceptedOnce(delivery, interruptions);
      figures.acceptedAgain += again;
      figures.unstoredS = Math.max(figures.unstoredS, unstoredS);
      if (unexplained > 0) figures.late.push(delivery.id);
    }
    figures.attempts += asShown(taker, deliveries, shownOf.get(taker.id) ?? []);
    figures.deliveries += deliveries.length;
    figures.severalEvents += deliveries.filter(({ events }) => events.length > 1).length;
  }
  return figures;
}

function isFor({ rules }: Taker, event: CommittedEvent): boolean {
  const filter = rules.findLast(({ after }) => event.id > after)?.filter;
  if (filter === undefined || !filter.scopes.includes(event.scope)) return false;
  const { dictionaries, actions, categories } = filter;
  if (dictionaries !== null && !dictionaries.includes(event.dictionary)) return false;
  if (categories !== null && !categories.includes(event.category)) return false;
  return event.category !== 'dict.record.*' || actions === null || actions.includes(event.action);
}

/** Its scope was taken from the subscription later: what had not been delivered by then is for review, and not sent. */
function isWithdrawn({ rules }: Taker, event: CommittedEvent): boolean {
  return rules.some(({ after, filter }) => after >= event.id && filter?.scopes.includes(event.scope) === false);
}

/** One deliveryId: one text, and one signature as long as the secret is one. */
function deliveriesOf(
  { id, path }: Taker,
  requests: readonly ReceivedRequest[],
  byDigest: ReadonlyMap<string, CommittedEvent>,
): Delivery[] {
  const own = Map.groupBy(
    requests.filter((one) => one.path === path),
    ({ body }) => body?.deliveryId ?? '',
  );
  return [...own].map(([deliveryId, same]) => {
    const [first] = same;
    assert.ok(first?.body !== undefined);
    const signatures = new Map<string | undefined, string | undefined>();
    for (const { raw, signedBy, header } of same) {
      assert.ok(raw.equals(first.raw), `${deliveryId} of ${id} always has the same bytes`);
      const signature = header['x-service-signature'];
      assert.equal(
        signatures.get(signedBy) ?? signature,
        signature,
        `${deliveryId} of ${id}: one secret, one signature`,
      );
      signatures.set(signedBy, signature);
    }
    const events = first.body.events.map((element) => {
      const event = byDigest.get(digestOf(element));
      assert.ok(event, `${deliveryId} of ${id} has an event that was never committed: ${JSON.stringify(element)}`);
      return event;
    });
    return { id: deliveryId, raw: first.raw, requests: same, events };
  });
}

/** All that is for it and nothing else, each in one delivery; those of a transaction in as few as may be. */
function everyEventOnce(
  taker: Taker,
  deliveries: readonly Delivery[],
  committed: readonly CommittedEvent[],
  eventsForReview: number,
): void {
  const owed = committed.filter((event) => isFor(taker, event));
  const delivered = new Map<number, string>();
  for (const { id, events } of deliveries) {
    assert.equal(new Set(events.map(({ txTime }) => txTime)).size, 1, `${id} is of one transaction`);
    events.forEach((event, i) => {
      assert.equal(delivered.get(event.id), undefined, `event ${event.id} is planned once for ${taker.id}`);
      assert.ok(i === 0 || event.id > (events[i - 1]?.id ?? 0), `${id} has its events in their order`);
      delivered.set(event.id, id);
    });
  }
  const unsent = owed.filter((event) => !delivered.has(event.id));
  // A delivery is of one transaction: with one of its events withdrawn none of it is sent.
  const withdrawn = new Set(owed.filter((event) => isWithdrawn(taker, event)).map(({ txTime }) => txTime));
  const missing = unsent.filter(({ txTime }) => !withdrawn.has(txTime)).map(({ id }) => id);
  assert.deepEqual(missing, [], `committed, for ${taker.id}, and never sent`);
  assert.ok(unsent.length <= eventsForReview, `${unsent.length} events not sent to ${taker.id} are listed for review`);
  const sent = owed.filter(({ id }) => delivered.has(id));
  assert.equal(delivered.size, sent.length, `what was sent to ${taker.id} is for it`);
  for (const [txTime, events] of Map.groupBy(sent, (event) => event.txTime)) {
    const ids = new Set(events.map(({ id }) => delivered.get(id)));
    assert.ok(ids.size <= fewest(events), `${ids.size} deliveries of ${events.length} events of ${txTime}`);
  }
}

/** Events of deliveries that are listed as failed. */
function forReview(shown: readonly ShownDelivery[]): number {
  return shown.reduce((sum, { state, events }) => sum + (state === 'failed' ? events : 0), 0);
}

function fewest(events: readonly CommittedEvent[]): number {
  let [count, held, bytes] = [1, 0, FRAME_BYTES];
  for (const event of events) {
    if (held > 0 && (held === MOST_EVENTS || bytes + event.bytes + 1 > MOST_BYTES)) {
      [count, held, bytes] = [count + 1, 0, FRAME_BYTES];
    }
    held += 1;
    bytes += event.bytes + 1;
  }
  return count;
}

/** How often what was accepted was sent again: because of an interruption, and otherwise. */
function acceptedOnce({ requests }: Delivery, interruptions: readonly Interruption[]) {
  let [again, unexplained, unstoredS] = [0, 0, 0];
  requests.forEach((request, i) => {
    const next = requests[i + 1];
    if (next === undefined || !isAccepted(request)) return;
    const cause = interruptions.find(({ from, to }) => from <= next.at && to + ON_ITS_WAY_S >= request.at);
    if (cause === undefined) unexplained += 1;
    else again += 1;
    unstoredS = Math.max(unstoredS, (cause?.from ?? 0) - (request.end?.at ?? 0));
  });
  return { again, unexplained, unstoredS };
}

/** Answers the attempts in all. */
function asShown(taker: Taker, deliveries: readonly Delivery[], shown: readonly ShownDelivery[]): number {
  const listed = new Map(shown.map((one) => [one.deliveryId, one]));
  assert.equal(listed.size, shown.length, 'each delivery is listed once');
  const sent = deliveries.map(({ id }) => id);
  const withheld = shown.filter(({ state }) => state === 'failed').map(({ deliveryId }) => deliveryId);
  assert.deepEqual([...listed.keys()].sort(), [...new Set([...sent, ...withheld])].sort(), `deliveries of ${taker.id}`);
  let attempts = 0;
  for (const { id: deliveryId, events, requests } of deliveries) {
    const one = listed.get(deliveryId);
    attempts += one?.attempts ?? 0;
    if (one?.state === 'failed' && events.some((event) => isWithdrawn(taker, event))) continue;
    assert.deepEqual([one?.state, one?.events], ['delivered', events.length], deliveryId);
    const statusCode = one?.lastAttempt?.statusCode ?? undefined;
    const accepting = requests.filter(isAccepted).map(({ end }) => end?.status);
    assert.ok(
      accepting.includes(statusCode),
      `${deliveryId} was delivered by ${statusCode}, not by ${accepting.join()}`,
    );
  }
  return attempts;
}

function isAccepted({ end }: ReceivedRequest): boolean {
  return end?.how === 'answered' && end.sent > 0 && [200, 201, 202, 204].includes(end.status);
}

/** Read beside the hub, from the file itself. */
export function committedEvents(path: string): CommittedEvent[] {
  return rowsOf<Omit<CommittedEvent, 'digest'> & { body: string }>(
    path,
    `SELECT id, tx_time AS txTime, category, scope, dictionary, action, octet_length(body) AS bytes, body
     FROM events ORDER BY id`,
  ).map(({ body, ...event }) => ({ ...event, digest: digestOf(elementOf(event.category, body)) }));
}

/** The element that the specification wants for a stored event. */
function elementOf(category: string, body: string): object {
  const event = JSON.parse(body) as Record<string, unknown>;
  if (category !== 'dict.record.*') return event;
  const { schemaVersion, dictionary, businessKey, action, version, validFrom, data } = event;
  const eventType = 'dictionary.changed';
  return { schemaVersion, eventType, dictionary, businessKey, action, version, validFrom, data };
}

function digestOf(element: object): string {
  return createHash('sha1').update(JSON.stringify(element)).digest('base64');
}
