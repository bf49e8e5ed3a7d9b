import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Phase } from './connections.ts';
import { EgressRefused } from './guard.ts';
import { failureOf, lateIn } from './outcome.ts';
import { NameUnresolved } from './resolver.ts';

const host = 'mes.example.org:8443';
const error = (code: string): Error => {
  // As Node words it: with the address.
  return Object.assign(new Error(`connect ${code} 192.0.2.7:8443`), { code });
};

describe('an error of an attempt', () => {
  const rows: readonly [code: string, phase: Phase, cause: string, unreached: boolean][] = [
    ['ENETUNREACH', 'connect', 'connect', true],
    ['EHOSTUNREACH', 'connect', 'connect', true],
    ['ENETDOWN', 'connect', 'connect', true],
    ['EADDRNOTAVAIL', 'connect', 'connect', true],
    ['EHOSTUNREACH', 'wait', 'connect', false],
    ['ETIMEDOUT', 'connect', 'timeout', true],
    ['ETIMEDOUT', 'wait', 'connect', false],
    ['ECONNREFUSED', 'connect', 'connect', true],
    ['EPERM', 'connect', 'connect', true],
    ['ECONNRESET', 'tls', 'tls', false],
    ['ECONNRESET', 'wait', 'connect', false],
    ['EPIPE', 'send', 'connect', false],
    ['CERT_HAS_EXPIRED', 'tls', 'tls', false],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'wait', 'tls', false],
    ['EPROTO', 'tls', 'tls', false],
    ['HPE_INVALID_CONSTANT', 'wait', 'http', false],
    ['HPE_HEADER_OVERFLOW', 'wait', 'http', false],
    ['WHAT_NOBODY_FORESAW', 'wait', 'connect', false],
    ['', 'connect', 'connect', true],
  ];
  for (const [code, phase, cause, unreached] of rows) {
    it(`${code === '' ? 'without a code' : code} in the phase ${phase} is of cause ${cause}`, () => {
      const failure = failureOf(error(code), phase, host);
      assert.deepEqual([failure.cause, failure.unreached, failure.reasons], [cause, unreached, []]);
      assert.doesNotMatch(failure.message, /192\.0\.2\.7|HOST/);
      assert.notEqual(failure.message, '');
    });
  }

  it('of the guard keeps every reason, and has each in its message', () => {
    const failure = failureOf(new EgressRefused(['one', 'two']), 'resolve', host);
    assert.deepEqual(failure, {
      cause: 'ssrf',
      message: 'mes.example.org:8443 may not be called: one; two',
      reasons: ['one', 'two'],
      unreached: false,
    });
  });

  it('of the resolver has reached nothing', () => {
    const failure = failureOf(new NameUnresolved('mes.example.org', 'EAI_AGAIN'), 'resolve', host);
    assert.deepEqual([failure.cause, failure.unreached], ['dns', true]);
  });

  it('that is no error at all has a cause as well', () => {
    assert.equal(failureOf('text', 'wait', host).cause, 'connect');
  });
});

it('a timeout while connecting has reached nothing', () => {
  const message = `10000 ms were over while connecting to ${host}`;
  assert.deepEqual(lateIn('connect', host, 10_000), { cause: 'timeout', message, reasons: [], unreached: true });
});
