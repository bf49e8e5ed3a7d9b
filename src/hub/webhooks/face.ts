/** Webhooks for the HTTP interface. */

import type {
  Delivery,
  DeliveryDetail,
  DeliveryResults,
  PingResult,
  Subscription,
  WebhookStatus,
} from '../../shared/gen/http.ts';
import type { Action, Category, Scope } from '../outbox/event.ts';
import type { PageRequest } from '../outbox/paging.ts';

export type { Delivery, DeliveryDetail, DeliveryResults, PingResult, WebhookStatus };

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
  /** Of the last attempt. */
  readonly statusCode?: number | undefined;
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
