/** Webhooks for the HTTP interface. */

import type { Alert } from '../../shared/base/alerts.ts';
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import type { Delivery, DeliveryDetail, PingResult, Subscription, WebhookStatus } from '../../shared/gen/http.ts';
import type { Action, Category, Scope } from '../outbox/event.ts';
import type { Page, PageRequest } from '../outbox/paging.ts';

export type { Delivery, DeliveryDetail, PingResult, WebhookStatus };

/** A transaction of more events has several deliveries. */
export const maxDeliveryEvents = 500;

/** A pattern of JSON Schema. */
export const SUBSCRIPTION_NAME = '^[!-~]([ -~]{0,126}[!-~])?$';

export const actions = ['created', 'updated', 'closed'] as const satisfies readonly Action[];
export const categories = ['dict.record.*', 'dict.definition.*', 'dict.draft.*'] as const satisfies readonly Category[];

export const deliveryStates = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const;
export type DeliveryState = (typeof deliveryStates)[number];
/** Ended undelivered. */
export const reviewStates = ['rejected', 'failed'] as const satisfies readonly DeliveryState[];

/** Why an attempt or a test-ping was not accepted. http: the answer does not accept. */
export const causes = ['dns', 'timeout', 'ssrf', 'tls', 'connect', 'http'] as const;
export type Cause = (typeof causes)[number];

export interface Caller {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

export type SubscriptionView = Subscription;

/** null: all. */
export type Filter = Pick<SubscriptionView, 'scopes' | 'dictionaries' | 'actions' | 'categories'>;

type AskedLists = { readonly [K in keyof Filter]?: readonly string[] | null };

/** Types are checked, contents are not: all faults are reported at once. */
export interface SubscriptionRequest
  extends AskedLists,
    Pick<SubscriptionView, 'name' | 'url'>,
    Partial<Pick<SubscriptionView, 'consumer' | 'active'>> {
  readonly secret: string;
}
export type SubscriptionPatch = Partial<Omit<SubscriptionRequest, 'secret' | 'consumer'>>;

export interface SecretRotation {
  readonly secret: string;
  /** Running time in which the old secret signs too; 0: none. Default a day. */
  readonly graceSeconds?: number;
}

export type Attempt = DeliveryDetail['attemptList'][number];

export interface DeliveryQuery extends PageRequest {
  readonly state: DeliveryState | undefined;
  /** A subscription's id. */
  readonly subscription: string | undefined;
}

export interface ResendRange {
  /** occurredAt at or after. */
  readonly from?: string;
  /** occurredAt before. */
  readonly to?: string;
  /** Default: rejected and failed. */
  readonly states?: readonly ('rejected' | 'failed' | 'delivered')[];
}

export interface PingRequest {
  readonly url: string;
  readonly secret: string;
}

/**
 * Errors: NOT_FOUND (no such subscription or delivery), INVALID_ARGUMENT with every reason (the fields' own faults and the
 * egress guard's), STALE_VERSION, CONFLICT, TOO_MANY, and those of ChangeStore.commit.
 */
export interface WebhookAdmin {
  subscriptions(page: PageRequest): Page<SubscriptionView>;
  subscription(id: string): SubscriptionView;
  /** `consumer` defaults to the caller. Audited as webhook.subscribed. */
  subscribe(caller: Caller, request: SubscriptionRequest, reason: string): Promise<SubscriptionView>;
  /** `version`: the expected one; undefined: any. Audited as webhook.updated. */
  update(
    caller: Caller,
    id: string,
    patch: SubscriptionPatch,
    version: ExpectedVersion | undefined,
    reason: string,
  ): Promise<SubscriptionView>;
  /** With its waiting deliveries and its history. `version`: as in update. Audited as webhook.unsubscribed. */
  unsubscribe(caller: Caller, id: string, reason: string, version?: ExpectedVersion): Promise<void>;
  /** Audited as webhook.secret_rotated. `version`: as in update. */
  rotateSecret(
    caller: Caller,
    id: string,
    rotation: SecretRotation,
    reason: string,
    version?: ExpectedVersion,
  ): Promise<SubscriptionView>;
  deliveries(query: DeliveryQuery): Page<Delivery>;
  delivery(caller: Caller, deliveryId: string): DeliveryDetail;
  /** With the same deliveryId and bytes. CONFLICT: it waits already, or its events were removed. Audited as webhook.resent. */
  resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery>;
  /** Audited as webhook.resent. */
  resendAll(caller: Caller, id: string, range: ResendRange, reason: string): Promise<{ readonly deliveries: number }>;
  /** A failure of the URL is a result. TOO_MANY: others are under way. */
  testPing(request: PingRequest): Promise<PingResult>;
  status(): WebhookStatus;
  alerts(): readonly Alert[];
}
