/** An egress guard on a made-up site: what names lead to there, and which addresses are the device's own. */
import assert from 'node:assert/strict';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { EgressGuard, EgressRefused } from './guard.ts';
import { Resolver } from './resolver.ts';

export const publicAddress = '93.184.216.34';
export const otherPublic = '2600:1::34';
/** Of a caller that waits for as long as it takes. */
export const forever = new AbortController().signal;

export interface Site {
  readonly allow?: readonly string[];
  readonly ports?: readonly number[];
  readonly own?: readonly string[];
  /** What each name leads to; a name that is not here does not resolve. */
  readonly names?: Record<string, readonly string[]>;
}

export function site({ allow = [], ports = [], own = [], names = {} }: Site = {}) {
  const clock = new FakeClock();
  const asked: string[] = [];
  const resolver = new Resolver(clock, async (hostname) => {
    asked.push(hostname);
    const found = names[hostname];
    if (found === undefined) throw Object.assign(new Error('no'), { code: 'ENOTFOUND' });
    return found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  });
  const egress = new EgressGuard({ allowCidrs: allow, allowPorts: ports, clock, ownAddresses: () => own, resolver });
  return { egress, resolver, clock, asked };
}

/** The reasons of the refusal that is expected. */
export async function refusal(work: Promise<unknown>): Promise<readonly string[]> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof EgressRefused, String(error));
    assert.ok(error.reasons.length > 0);
    return error.reasons;
  }
  return assert.fail('not refused');
}
