/** Webhooks: subscriptions, their deliveries, and the test-ping. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { SubscriptionRequest, SubscriptionView } from '../../webhooks/face.ts';
import type { WebhookAdmin } from '../../webhooks/webhooks.ts';
import type { Caller } from '../access.ts';
import { Body, Query } from '../schemas/refdata.ts';
import { WebhookBody, WebhookQuery } from '../schemas/webhooks.ts';
import type { RouteParts, Routes } from './route.ts';

export function subscriptionRoutes(routes: Routes, { webhooks }: RouteParts): void {
  const route = routes('webhooks');
  const one = { what: 'The subscription.', of: 'Subscription', etag: true } as const;
  route('POST /api/v1/admin/webhooks/subscriptions', 'admin', {
    id: 'createSubscription',
    summary: 'Have changes posted to a URL',
    description: 'Events from then on are delivered. All faults are reported at once, those of the URL among them.',
    body: WebhookBody.subscription,
    answer: { ...one, status: 201 },
    problems: ['CONFLICT', 'NOT_READY'],
    async handle(call) {
      const made = await subscribe(webhooks, call.caller, call.body, call.reason);
      return call.created(made, `/api/v1/admin/webhooks/subscriptions/${encodeURIComponent(made.id)}`);
    },
  });
  route('GET /api/v1/admin/webhooks/subscriptions', 'admin', {
    id: 'listSubscriptions',
    summary: 'List subscriptions',
    query: Query.page,
    answer: { what: 'Without their secrets.', listOf: 'Subscription' },
    handle: ({ page }) => webhooks.subscriptions(page),
  });
  route('GET /api/v1/admin/webhooks/subscriptions/:id', 'admin', {
    id: 'getSubscription',
    summary: 'Read a subscription',
    answer: one,
    handle: ({ params }) => webhooks.subscription(params.id),
  });
  route('PATCH /api/v1/admin/webhooks/subscriptions/:id', 'admin', {
    id: 'updateSubscription',
    summary: 'Change name, URL, filters, or whether it is active',
    description:
      'The URL is that of the next attempt of what waits, too; filters hold for events from then on. If-Match may be left out.',
    body: WebhookBody.subscriptionPatch,
    version: 'optional',
    answer: one,
    problems: ['CONFLICT', 'NOT_READY'],
    handle: ({ caller, params, body, version, reason }) => webhooks.update(caller, params.id, body, version, reason),
  });
  route('DELETE /api/v1/admin/webhooks/subscriptions/:id', 'admin', {
    id: 'deleteSubscription',
    summary: 'End a subscription, with everything that waits for it and its history',
    description: 'If-Match may be left out.',
    version: 'optional',
    answer: { status: 204, what: 'It is gone.' },
    problems: ['NOT_READY'],
    handle: ({ caller, params, reason, version }) => webhooks.unsubscribe(caller, params.id, reason, version),
  });
  route('POST /api/v1/admin/webhooks/subscriptions/:id/rotate-secret', 'admin', {
    id: 'rotateSecret',
    summary: 'Sign with another secret',
    description:
      'For graceSeconds of running time deliveries are signed with the old one as well, where that can still be read. If-Match may be left out.',
    body: WebhookBody.rotation,
    version: 'optional',
    answer: one,
    handle: ({ caller, params, body, reason, version }) =>
      webhooks.rotateSecret(caller, params.id, body, reason, version),
  });
}

export function deliveryRoutes(routes: Routes, { webhooks }: RouteParts): void {
  const route = routes('webhooks');
  route('POST /api/v1/admin/webhooks/subscriptions/:id/resend', 'admin', {
    id: 'resendDeliveries',
    summary: 'Send a subscription’s deliveries of a time again',
    body: WebhookBody.resend,
    answer: { what: 'They wait again.', of: 'Resent' },
    problems: ['CONFLICT'],
    handle: ({ caller, params, body, reason }) => webhooks.resendAll(caller, params.id, body, reason),
  });
  route('GET /api/v1/admin/webhooks/deliveries', 'admin', {
    id: 'listDeliveries',
    summary: 'List deliveries, newest first',
    description: 'A page may hold fewer than asked for, or none, and still have a nextCursor.',
    query: WebhookQuery.deliveries,
    answer: { what: 'Deliveries.', listOf: 'Delivery' },
    handle: ({ caller, query: { state, subscription, statusCode }, page }) =>
      webhooks.deliveries(caller, { ...page, state, subscription, statusCode }),
  });
  route('GET /api/v1/admin/webhooks/results', 'admin', {
    id: 'getDeliveryResults',
    summary: 'How the newest deliveries of each subscription ended',
    answer: { what: 'Counts, and since when they hold.', of: 'DeliveryResults' },
    handle: () => webhooks.results(),
  });
  route('GET /api/v1/admin/webhooks/deliveries/:id', 'admin', {
    id: 'getDelivery',
    summary: 'Read a delivery with its text and every attempt',
    answer: { what: 'The delivery.', of: 'DeliveryDetail' },
    handle: ({ caller, params }) => webhooks.delivery(caller, params.id),
  });
  route('POST /api/v1/admin/webhooks/deliveries/:id/resend', 'admin', {
    id: 'resendDelivery',
    summary: 'Send a delivery again, with the same id and bytes',
    body: Body.reason,
    answer: { what: 'It waits again.', of: 'Delivery' },
    problems: ['CONFLICT'],
    handle: ({ caller, params, reason }) => webhooks.resend(caller, params.id, reason),
  });
  route('GET /api/v1/admin/webhooks/status', 'admin', {
    id: 'getWebhooks',
    summary: 'What waits, what is for review, whether the device is offline',
    answer: { what: 'How it stands.', of: 'WebhookStatus' },
    handle: () => webhooks.status(),
  });
  route('POST /api/v1/admin/webhooks/test-ping', 'admin', {
    id: 'testPing',
    summary: 'Post a signed test delivery to a URL',
    description:
      'Answers 200 whatever the URL does, 422 when it is no URL; success says how it went, error of what it failed.',
    body: WebhookBody.ping,
    answer: { what: 'How it went.', of: 'PingResult' },
    handle: ({ body }) => webhooks.testPing(body),
  });
}

/**
 * Required fields may be missing here, so that the subscription's other faults are reported together with them: a missing one is
 * passed on as an empty string, which is always refused.
 */
async function subscribe(
  webhooks: WebhookAdmin,
  caller: Caller,
  wanted: Partial<SubscriptionRequest>,
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
