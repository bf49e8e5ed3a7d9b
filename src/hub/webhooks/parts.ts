/** What the parts of the room are to each other. */
import type { Instant } from '../../shared/base/instant.ts';
import type { Scope } from '../outbox/event.ts';
import type { Cause, DeliveryState, Filter } from './face.ts';

/** Milliseconds that the service has been running, over all its starts: never steps back, and no clock moves it (running-time.ts). */
export type RunMs = number;

/** A subscription as planner and dispatcher know it. Only those that are not deleted. */
export interface Subscription extends Filter {
  readonly id: number;
  readonly name: string;
  readonly url: string;
  readonly consumer: string;
  readonly active: boolean;
  readonly version: number;
  readonly templateId: number;
  readonly afterEvent: number;
}

/** Whose scopes bound a subscription: the tokens by their names, and "local". */
export interface Consumers {
  /** Those that are open to it now. undefined: there is none of this name. */
  scopesOf(name: string): readonly Scope[] | undefined;
  /** Whether they could be found out since the start; if not asked: they could. */
  isKnown?(): boolean;
  /** One came, went, or has other scopes. */
  onChanged(listener: () => void): void;
}

/** What a delivery's body is made by, besides its events. */
export interface BodyTemplate extends Filter {
  readonly id: number;
  readonly subscriptionId: number;
  readonly renderer: number;
  readonly name: string;
}

/** In memory, and always what is committed. */
export interface SubscriptionCache {
  /** In the order of their ids. A new array whenever one has changed: compare by identity. */
  all(): readonly Subscription[];
  byId(id: number): Subscription | undefined;
  /** The current secret and, within its grace, the one before. `unreadable`: they cannot be opened, with the reason. */
  secrets(id: number, runMs: RunMs): Secrets | { readonly unreadable: string };
  /**
   * '' while it is served, else why nothing is sent to it (consumer gone, none of its scopes open, secret unreadable). One of
   * whose scopes some are open is served with what they let through: openScopes().
   */
  blocked(subscription: Subscription): string;
  /** Of its scopes, those that are open to its consumer now. */
  openScopes(subscription: Subscription): readonly Scope[];
  /** After each commit that changed one; undefined: any may have changed (the tokens did). */
  onChanged(listener: (id: number | undefined) => void): void;
}

export interface Secrets {
  readonly current: string;
  readonly previous: string | undefined;
}

/** One event as the planner sees it. */
export interface EventHead {
  readonly id: number;
  readonly txTime: Instant;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly category: string;
  /** "created", ..., or the eventType of a definition or draft. */
  readonly action: string;
  /** Of its stored text: not less than its element in a delivery has. */
  readonly bytes: number;
}

/** A delivery to be inserted. */
export interface Planned {
  readonly subscriptionId: number;
  readonly templateId: number;
  readonly firstEvent: number;
  readonly lastEvent: number;
  readonly events: number;
}

/** A delivery that waits, as the dispatcher takes it. */
export interface PendingDelivery {
  readonly id: number;
  readonly nonce: string;
  readonly subscriptionId: number;
  readonly templateId: number;
  readonly firstEvent: number;
  readonly lastEvent: number;
  readonly occurredAt: Instant;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly attemptsBefore: number;
  readonly dueRunMs: RunMs;
}

export function deliveryIdOf({ id, nonce }: { readonly id: number; readonly nonce: string }): string {
  return `${id}-${nonce}`;
}

/** What is sent. */
export interface Message {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly body: Buffer;
}

/** How an attempt ended. */
export interface Outcome {
  /** undefined: there was no answer. */
  readonly status: number | undefined;
  /** '' accepted: 200, 201, 202, 204 in time. */
  readonly cause: Cause | '';
  /** In words for the person who reviews it: host names and what failed, never an address that a name led to. */
  readonly message: string;
  /** The first 4 KiB of the answer; empty where there is none. */
  readonly answer: Buffer;
  readonly elapsedMs: number;
  /** Of cause ssrf: each rule that was broken. */
  readonly reasons: readonly string[];
  /** It failed before a connection was established: while the device is offline it is no attempt. */
  readonly unreached: boolean;
}

/** One POST, from the name's resolution to the answer's last byte. */
export interface Sender {
  /**
   * Never rejects, and ends within the time-out. `signal`: given up by the caller, which asks for no outcome.
   * `agentKey`: whose kept connections it may use (a subscription's id, or "ping").
   */
  send(
    target: { readonly url: string; readonly agentKey: string },
    secrets: Secrets,
    message: Message,
    signal: AbortSignal,
  ): Promise<Outcome>;
  /** Lets go of kept connections; of this lane alone where one is named. */
  close(agentKey?: string): void;
}

/** What the configuration says of where may be called. */
export interface EgressRules {
  /** webhooks.allow_cidrs: ranges that are opened although they are not public. */
  readonly allowCidrs: readonly string[];
  /** webhooks.allow_ports: for public addresses; within allow_cidrs any port may be called. */
  readonly allowPorts: readonly number[];
}

/** Where a URL leads now, judged. */
export interface Target {
  readonly hostname: string;
  readonly port: number;
  /** All that the name has (or the literal itself); each may be called. What is dialled is one of these and nothing else. */
  readonly addresses: readonly { readonly address: string; readonly family: 4 | 6 }[];
}

/** The egress guard: the one judgement of addresses and URLs, at registration, test-ping and each connection. */
export interface Egress {
  /**
   * Everything that speaks against a URL: its form, and where its name leads if that can be found out within 2 s (a name
   * that does not resolve now is judged when it is called). Empty: nothing.
   */
  faults(url: string): Promise<readonly string[]>;
  /** Resolves and judges. Rejects with EgressRefused, or NameUnresolved. Bounded by `signal` alone. */
  target(url: string, signal: AbortSignal): Promise<Target>;
  /** Whether an address that a socket is connected to may be called at this port. */
  mayCall(address: string, port: number): boolean;
}

export class EgressRefused extends Error {
  override readonly name = 'EgressRefused';
  readonly reasons: readonly string[];
  constructor(reasons: readonly string[]) {
    super(reasons.join('; '));
    this.reasons = reasons;
  }
}

export class NameUnresolved extends Error {
  override readonly name = 'NameUnresolved';
  /** ENOTFOUND, EAI_AGAIN, ... */
  readonly code: string;
  constructor(hostname: string, code: string) {
    super(`the name ${hostname} cannot be resolved (${code})`);
    this.code = code;
  }
}
