/** Webhooks: subscriptions, their deliveries, and the test-ping. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Caller, SubscriptionRequest, SubscriptionView, WebhookAdmin } from '../webhooks/face.ts';
import { changeReason, ifMatch } from './headers.ts';
import { type App, actorOf, listed, pageOf, type RouteParts, reasonOf, versioned } from './route.ts';
import { answers, Body, Headers, Query, reading, unchanged, writing } from './schemas.ts';
import { WebhookBody, WebhookParams, WebhookQuery } from './schemas-webhooks.ts';

const tags = ['webhooks'];
const subscriptions = '/api/v1/admin/webhooks/subscriptions';
const deliveries = '/api/v1/admin/webhooks/deliveries';
const one = { status: 200, what: 'The subscription.', of: 'Subscription', etag: true } as const;

export function subscriptionRoutes(app: App, { webhooks }: RouteParts): void {
  app.post(
    subscriptions,
    {
      schema: {
        operationId: 'createSubscription',
        summary: 'Have changes posted to a URL',
        description: 'Events from then on are delivered. All faults are reported at once, those of the URL among them.',
        tags,
        headers: Headers.reason,
        body: WebhookBody.subscription,
        response: answers({ ...one, status: 201 }, [...writing, 'CONFLICT', 'NOT_READY']),
      },
    },
    async (request, reply) => {
      const { changeReason: _, ...wanted } = request.body;
      const made = await subscribe(webhooks, actorOf(request), wanted, reasonOf(request, request.body));
      reply.code(201).header('location', `${subscriptions}/${encodeURIComponent(made.id)}`);
      return versioned(reply, made);
    },
  );

  app.get(
    subscriptions,
    {
      schema: {
        operationId: 'listSubscriptions',
        summary: 'List subscriptions',
        tags,
        querystring: Query.page,
        response: answers({ status: 200, what: 'Without their secrets.', listOf: 'Subscription' }, reading),
      },
    },
    async (request) => listed(webhooks.subscriptions(pageOf(request.query))),
  );

  app.get(
    `${subscriptions}/:id`,
    {
      schema: {
        operationId: 'getSubscription',
        summary: 'Read a subscription',
        tags,
        headers: Headers.known,
        params: WebhookParams.subscription,
        response: { ...answers(one, [...reading, 'NOT_FOUND']), ...unchanged },
      },
    },
    async (request, reply) => versioned(reply, webhooks.subscription(request.params.id)),
  );
}

/** What may be missing of a request here although it is needed: the room is asked all the same, for everything else. */
type Incomplete = Partial<SubscriptionRequest>;

/** An empty text is never taken by the room, so that a missing field is reported together with the other faults. */
async function subscribe(
  webhooks: WebhookAdmin,
  caller: Caller,
  wanted: Incomplete,
  reason: string,
): Promise<SubscriptionView> {
  const request = { ...wanted, name: wanted.name ?? '', url: wanted.url ?? '', secret: wanted.secret ?? '' };
  const missing = (['name', 'url', 'secret'] as const).filter((field) => wanted[field] === undefined);
  try {
    return await webhooks.subscribe(caller, request, reason);
  } catch (error) {
    throw missing.length > 0 ? withMissing(error, missing) : error;
  }
}

function withMissing(error: unknown, missing: readonly string[]): unknown {
  if (!(error instanceof LinesideError) || error.code !== 'INVALID_ARGUMENT') return error;
  const others = error.reasons.filter(
    (reason) => !missing.some((field) => new RegExp(`^/?(the )?${field}\\b`, 'i').test(reason)),
  );
  const reasons = [...missing.map((field) => `${field} is missing`), ...others];
  return new LinesideError('INVALID_ARGUMENT', `${reasons.length} faults, see reasons`, { cause: error, reasons });
}

export function subscriptionChangeRoutes(app: App, { webhooks }: RouteParts): void {
  app.patch(
    `${subscriptions}/:id`,
    {
      schema: {
        operationId: 'updateSubscription',
        summary: 'Change name, URL, filters, or whether it is active',
        description:
          'The URL is that of the next attempt of what waits, too; filters hold for events from then on. If-Match may be left out.',
        tags,
        headers: Headers.version,
        params: WebhookParams.subscription,
        body: WebhookBody.subscriptionPatch,
        response: answers(one, [...writing, 'NOT_FOUND', 'STALE_VERSION', 'CONFLICT', 'NOT_READY']),
      },
    },
    async (request, reply) => {
      const { changeReason: _, ...patch } = request.body;
      const version = ifMatch(request.headers['if-match']);
      const reason = reasonOf(request, request.body);
      return versioned(reply, await webhooks.update(actorOf(request), request.params.id, patch, version, reason));
    },
  );

  app.delete(
    `${subscriptions}/:id`,
    {
      schema: {
        operationId: 'deleteSubscription',
        summary: 'End a subscription, with everything that waits for it and its history',
        description: 'If-Match may be left out.',
        tags,
        headers: Headers.version,
        params: WebhookParams.subscription,
        response: answers({ status: 204, what: 'It is gone.' }, [
          ...writing,
          'NOT_FOUND',
          'STALE_VERSION',
          'NOT_READY',
        ]),
      },
    },
    async (request, reply) => {
      const reason = changeReason(request.headers['x-change-reason']);
      const version = ifMatch(request.headers['if-match']);
      await webhooks.unsubscribe(actorOf(request), request.params.id, reason, version);
      return reply.code(204).send();
    },
  );

  app.post(
    `${subscriptions}/:id/rotate-secret`,
    {
      schema: {
        operationId: 'rotateSecret',
        summary: 'Sign with another secret',
        description:
          'For graceSeconds of running time deliveries are signed with the old one as well, where that can still be read. If-Match may be left out.',
        tags,
        headers: Headers.version,
        params: WebhookParams.subscription,
        body: WebhookBody.rotation,
        response: answers(one, [...writing, 'NOT_FOUND', 'STALE_VERSION']),
      },
    },
    async (request, reply) => {
      const { changeReason: _, ...rotation } = request.body;
      const reason = reasonOf(request, request.body);
      const version = ifMatch(request.headers['if-match']);
      return versioned(
        reply,
        await webhooks.rotateSecret(actorOf(request), request.params.id, rotation, reason, version),
      );
    },
  );
}

export function deliveryRoutes(app: App, { webhooks }: RouteParts): void {
  app.post(
    `${subscriptions}/:id/resend`,
    {
      schema: {
        operationId: 'resendDeliveries',
        summary: 'Send a subscription’s deliveries of a time again',
        tags,
        headers: Headers.reason,
        params: WebhookParams.subscription,
        body: WebhookBody.resend,
        response: answers({ status: 200, what: 'They wait again.', of: 'Resent' }, [
          ...writing,
          'NOT_FOUND',
          'CONFLICT',
        ]),
      },
    },
    async (request) => {
      const { changeReason: _, ...range } = request.body;
      return webhooks.resendAll(actorOf(request), request.params.id, range, reasonOf(request, request.body));
    },
  );

  app.get(
    deliveries,
    {
      schema: {
        operationId: 'listDeliveries',
        summary: 'List deliveries, newest first',
        description: 'A page may hold fewer than asked for, or none, and still have a nextCursor.',
        tags,
        querystring: WebhookQuery.deliveries,
        response: answers({ status: 200, what: 'Deliveries.', listOf: 'Delivery' }, reading),
      },
    },
    async (request) => {
      const { state, subscription } = request.query;
      return listed(webhooks.deliveries({ ...pageOf(request.query), state, subscription }));
    },
  );

  app.get(
    `${deliveries}/:id`,
    {
      schema: {
        operationId: 'getDelivery',
        summary: 'Read a delivery with its text and every attempt',
        tags,
        params: WebhookParams.delivery,
        response: answers({ status: 200, what: 'The delivery.', of: 'DeliveryDetail' }, [...reading, 'NOT_FOUND']),
      },
    },
    async (request) => webhooks.delivery(actorOf(request), request.params.id),
  );

  app.post(
    `${deliveries}/:id/resend`,
    {
      schema: {
        operationId: 'resendDelivery',
        summary: 'Send a delivery again, with the same id and bytes',
        tags,
        headers: Headers.reason,
        params: WebhookParams.delivery,
        body: Body.reason,
        response: answers({ status: 200, what: 'It waits again.', of: 'Delivery' }, [
          ...writing,
          'NOT_FOUND',
          'CONFLICT',
        ]),
      },
    },
    async (request) => webhooks.resend(actorOf(request), request.params.id, reasonOf(request, request.body)),
  );
}

export function webhookOperationRoutes(app: App, { webhooks }: RouteParts): void {
  app.get(
    '/api/v1/admin/webhooks/status',
    {
      schema: {
        operationId: 'getWebhooks',
        summary: 'What waits, what is for review, whether the device is offline',
        tags,
        response: answers({ status: 200, what: 'How it stands.', of: 'WebhookStatus' }, reading),
      },
    },
    async () => {
      const { attemptsTotal, ...rest } = webhooks.status();
      const { '': accepted, ...failed } = attemptsTotal;
      return { ...rest, attemptsTotal: { accepted, ...failed } };
    },
  );

  app.post(
    '/api/v1/admin/webhooks/test-ping',
    {
      schema: {
        operationId: 'testPing',
        summary: 'Post a signed test delivery to a URL',
        description:
          'Answers 200 whatever the URL does, 422 when it is no URL; success says how it went, error of what it failed.',
        tags,
        body: WebhookBody.ping,
        response: answers({ status: 200, what: 'How it went.', of: 'PingResult' }, writing),
      },
    },
    async (request) => webhooks.testPing(request.body),
  );
}
