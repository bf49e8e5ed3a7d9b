import assert from 'node:assert/strict';
import { it } from 'node:test';
import { signatureOf } from './sender.ts';

it('signs the known vector with lower-case hexadecimal', () => {
  assert.equal(
    signatureOf("It's a Secret to Everybody", Buffer.from('Hello, World!')),
    'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
  );
});

it('signs bytes, not text: a body that is no UTF-8 keeps its own signature', () => {
  const one = signatureOf('a secret of sixteen', Buffer.from([0xff, 0xfe]));
  const other = signatureOf('a secret of sixteen', Buffer.from([0xfe, 0xff]));
  assert.notEqual(one, other);
});

it('takes the secret as UTF-8', () => {
  // printf '{}' | openssl dgst -sha256 -hmac 'schlüssel-schlüssel'
  assert.equal(
    signatureOf('schlüssel-schlüssel', Buffer.from('{}')),
    'sha256=11f02dee71864d1d7f9b5747ed2daae390fabb9b18113b688a437011bd48657a',
  );
});
