import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  fatalReason,
  isAllDown,
  isFatal,
  isLimitOutdated,
  isTopicMissing,
  outcomeOf,
  thrownOutcome,
  troubleOf,
} from './librdkafka-errors.ts';
import { BATCH_BYTES } from './settings.ts';

const sent = { topic: 't', bytes: 500, topicLimit: undefined };
const reported = (text: string, more: Partial<Parameters<typeof outcomeOf>[1]> = {}) =>
  outcomeOf({ code: -1, text }, { ...sent, ...more });

it('a report is a refusal if the broker or an unknown topic is its reason; otherwise the message was unreached', () => {
  const kinds = {
    refused: [
      'broker: topic authorization failed',
      'broker: unknown topic or partition',
      'broker: invalid record',
      'broker: policy violation',
      'local: unknown topic',
      'local: unknown partition',
    ],
    unreached: [
      'local: message timed out',
      'local: broker transport failure',
      'local: purged in queue',
      'local: fatal error',
      'an unknown text',
    ],
  };
  for (const [kind, texts] of Object.entries(kinds))
    for (const text of texts) {
      const outcome = reported(text);
      assert.equal(outcome.kind, kind, text);
      if (outcome.kind === 'refused') assert.equal(outcome.permanent, false);
    }
});

it('too large: permanently only for what was sent alone or is above the limit of its topic', () => {
  const permanent = (
    more: Partial<typeof sent> | { topicLimit: number; bytes: number } | { alone: true; bytes: number },
  ): boolean => {
    const outcome = reported('broker: message size too large', more);
    return outcome.kind === 'refused' && outcome.permanent;
  };
  assert.equal(permanent({ bytes: BATCH_BYTES }), false);
  assert.equal(permanent({ bytes: BATCH_BYTES + 1 }), true);
  assert.equal(permanent({ bytes: 6_000, topicLimit: 5_000 }), true);
  assert.equal(permanent({ bytes: 4_000, topicLimit: 5_000 }), false);
  assert.equal(permanent({ bytes: 6_000, alone: true }), true);
});

it('produce() throws for a full queue and a lost client, which take nothing; what librdkafka never takes is refused', () => {
  assert.equal(thrownOutcome({ code: -184, text: 'local: queue full' }, sent), 'full');
  assert.equal(thrownOutcome({ code: 0, text: 'producer not connected' }, sent), 'offline');
  assert.equal(thrownOutcome({ code: -150, text: 'local: fatal error' }, sent), 'offline');
  assert.deepEqual(thrownOutcome({ code: 10, text: 'broker: message size too large' }, sent), {
    kind: 'refused',
    reason: 'too large for t',
    permanent: true,
  });
  // 29: what the broker said of the topic before, TOPIC_AUTHORIZATION_FAILED.
  for (const code of [-188, -190, -186, 29]) {
    const outcome = thrownOutcome({ code, text: 'local: unknown topic' }, sent);
    assert.ok(typeof outcome === 'object' && outcome.kind === 'refused' && !outcome.permanent);
  }
});

describe('why there is no connection', () => {
  const line = (what: string): string => `[thrd:h:1/bootstrap]: h:1/bootstrap: ${what} (after 12ms in state CONNECT)`;
  const rows: readonly [string, RegExp][] = [
    ['Connect to ipv4#127.0.0.1:1 failed: Connection refused', /^h:1: nothing listens there/],
    ["Failed to resolve 'h:1': Name or service not known", /^h:1: .*DNS/],
    ['Connect to ipv4#10.0.0.1:1 failed: Network is unreachable', /no route/],
    ['Connection setup timed out in state CONNECT', /does not answer/],
    [
      'SASL authentication error: Authentication failed during authentication due to invalid credentials',
      /refuses user name or password/,
    ],
    ['SSL handshake failed: ...: certificate verify failed: broker certificate could not be verified', /not trusted/],
    ['Disconnected', /closed the connection/],
  ];
  for (const [what, reason] of rows) it(what, () => assert.match(troubleOf(line(what)).reason, reason));

  it('keeps the words it does not know', () => {
    assert.equal(troubleOf(line('Something new')).reason, 'h:1/bootstrap: Something new');
  });

  it('distinguishes a certificate from other faults', () => {
    assert.equal(troubleOf(line('SSL handshake failed: x:certificate verify failed: y')).certificate, true);
    assert.equal(troubleOf(line('Connection refused')).certificate, false);
  });

  it('knows the errors that belong to no message', () => {
    assert.ok(isFatal({ code: -150, text: '' }) && !isFatal({ code: -185, text: '' }));
    assert.match(
      fatalReason('[thrd:main]: Fatal error: Broker: Cluster authorization failed: x') ?? '',
      /lacks the ACL/,
    );
    assert.match(
      fatalReason('[thrd:main]: Fatal error: Broker: Out of order: x') ?? '',
      /failed permanently: Broker: Out of order/,
    );
    assert.equal(fatalReason('h:1/bootstrap: Disconnected'), undefined);
    assert.ok(isAllDown('local: all broker connections are down') && !isAllDown('local: timed out'));
    assert.ok(isTopicMissing('local: unknown topic') && !isTopicMissing('local: timed out'));
  });
});

it('a limit that does not explain a refusal is out of date: it is not reported', () => {
  const fault = { code: -1, text: 'broker: message size too large' };
  for (const [topicLimit, isOutdated] of [
    [undefined, true],
    [1_000_000, true],
    [500, false],
  ] as const) {
    const sent = { topic: 't', bytes: 900, topicLimit };
    assert.equal(isLimitOutdated(fault, sent), isOutdated, String(topicLimit));
    const outcome = outcomeOf(fault, sent);
    assert.equal(outcome.kind === 'refused' && /takes up to/.test(outcome.reason), !isOutdated);
  }
  assert.equal(isLimitOutdated({ code: -1, text: 'broker: other' }, { topic: 't', bytes: 9, topicLimit: 99 }), false);
});
