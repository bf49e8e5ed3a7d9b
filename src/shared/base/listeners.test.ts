import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { AddressShare } from './listeners.ts';

/** A connection from there. */
function from(remoteAddress: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress });
}

for (const [name, one, same, other] of [
  ['an IPv4 address', '192.0.2.1', '192.0.2.1', '192.0.2.2'],
  ['an IPv4 address in IPv6 form', '::ffff:192.0.2.1', '192.0.2.1', '::ffff:192.0.2.2'],
  ['the IPv6 network (/64) of an address', '2001:db8:0:7::1', '2001:db8::7:ffff:1:2:3', '2001:db8:0:8::1'],
  ['the link-local network', 'fe80::1%br-lan', 'fe80::f00:2%br-lan', '::1'],
] as const) {
  test(`${name} has a quarter of the connections, and one that ends makes room`, () => {
    const share = new AddressShare(8);
    const first = from(one);
    assert.equal(share.admits(first), true);
    assert.equal(share.admits(from(same)), true);
    assert.deepEqual(
      [one, same].map((address) => share.admits(from(address))),
      [false, false],
    );
    assert.equal(share.admits(from(other)), true);
    first.emit('close');
    assert.equal(share.admits(from(same)), true);
    assert.equal(share.admits(from(one)), false);
  });
}
