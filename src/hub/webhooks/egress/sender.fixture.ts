/** A sender with real connections to subscribers on this machine: what resolves a name, and the clock, are the test's. */
import assert from 'node:assert/strict';
import type { ServerOptions } from 'node:https';
import { after, afterEach } from 'node:test';

import type { Clock } from '../../../shared/base/clock.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import type { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import type { Secrets } from '../subscriptions/subscription.ts';
import { EgressGuard } from './guard.ts';
import { answer, type Certificates, makeCertificates, Subscriber } from './https-subscriber.fixture.ts';
import type { Outcome } from './outcome.ts';
import { keepMs, Resolver } from './resolver.ts';
import { type Message, Sender } from './sender.ts';

export const secrets: Secrets = { current: 'the secret of these tests', previous: undefined };

export function message(body: string | Buffer = '{"deliveryId":"7-ab","events":[]}'): Message {
  return { deliveryId: '7-ab', subscriptionName: 'MES of hall 3', body: Buffer.from(body) };
}

export interface SenderFixture {
  readonly sender: Sender;
  readonly egress: EgressGuard;
  /** Where names lead; may be changed at any time. */
  addresses: readonly string[];
  /** How often a name was looked up. */
  lookups: number;
  send(url: string, body?: string | Buffer, signal?: AbortSignal, agentKey?: string): Promise<Outcome>;
}

export interface SenderFixtureOptions {
  readonly caFile: string;
  readonly clock?: Clock;
  readonly timeoutMs?: number;
  /** Default: all of 127.0.0.0/8. */
  readonly allowCidrs?: readonly string[];
  /** The device's own. Default: none. */
  readonly ownAddresses?: () => readonly string[];
  /** Instead of answering with `addresses`. */
  readonly lookup?: (hostname: string) => Promise<readonly string[]>;
}

export function senderFixture(options: SenderFixtureOptions): SenderFixture {
  const { caFile, clock = systemClock, timeoutMs = 10_000, allowCidrs = ['127.0.0.0/8'] } = options;
  const resolver = new Resolver(clock, async (hostname) => {
    fixture.lookups += 1;
    const found = options.lookup === undefined ? fixture.addresses : await options.lookup(hostname);
    return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  });
  const { ownAddresses = () => [] } = options;
  const egress = new EgressGuard({ allowCidrs, allowPorts: [], clock, ownAddresses, resolver });
  const sender = new Sender({ egress, resolver, timeoutMs, caFile, version: '1.2.3', clock });
  const fixture: SenderFixture = {
    sender,
    egress,
    addresses: ['127.0.0.1'],
    lookups: 0,
    send: (url, body, signal = new AbortController().signal, agentKey = '1') =>
      sender.send({ url, agentKey }, secrets, message(body), signal),
  };
  return fixture;
}

interface SenderSite {
  readonly certificates: Certificates;
  readonly subscriber: Subscriber;
  readonly own: SenderFixture;
  /** One attempt at another server, and how many requests that got. */
  readonly attemptAt: (server: ServerOptions, options?: Partial<SenderFixtureOptions>, host?: string) => Promise<Tried>;
}

type Tried = Outcome & { readonly requests: number };

/**
 * For a whole file of tests: certificates, a subscriber that accepts, and a sender to it. After each test no connection is
 * open and no timer is left, and the names that were looked up are forgotten.
 */
export async function senderSite(clock?: FakeClock): Promise<SenderSite> {
  const certificates = makeCertificates();
  const { caFile } = certificates;
  const subscriber = await Subscriber.start(certificates.good);
  const own = senderFixture({ caFile, ...(clock !== undefined && { clock }) });
  afterEach(async () => {
    own.sender.close();
    await subscriber.drained();
    subscriber.received.length = 0;
    subscriber.script = answer(202);
    own.addresses = ['127.0.0.1'];
    assert.equal(clock?.pendingTimers ?? 0, 0, 'a timer was left');
    clock?.advance(2 * keepMs);
  });
  after(async () => {
    await subscriber.close();
    certificates.remove();
  });
  return {
    certificates,
    subscriber,
    own,
    async attemptAt(server, options = {}, host = '127.0.0.1') {
      const other = await Subscriber.start(server, host);
      const trying = senderFixture({ caFile, ...options });
      const outcome = await trying.send(host === '127.0.0.1' ? other.url() : `https://${host}:${other.port}/`);
      trying.sender.close();
      await other.drained();
      await other.close();
      return { ...outcome, requests: other.received.length };
    },
  };
}
