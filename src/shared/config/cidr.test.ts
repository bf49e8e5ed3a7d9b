import assert from 'node:assert/strict';
import { BlockList, isIPv6 } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { cidrFault } from './cidr.ts';

describe('ranges of webhooks.allow_cidrs', () => {
  for (const text of ['0.0.0.0/0', '10.0.0.0/8', '192.168.7.0/24', '192.168.7.9/32', '127.0.0.0/8', '172.16.0.0/12'])
    it(`${text} is one`, () => assert.equal(cidrFault(text), undefined));
  for (const text of ['::/0', '::1/128', 'fd00::/8', 'fd12:3456:789a::/48', '2001:db8:0:1::/64', 'fe80::/10'])
    it(`${text} is one`, () => assert.equal(cidrFault(text), undefined));

  const faulty: readonly (readonly [string, RegExp])[] = [
    ['10.0.0.1/8', /inside the range: write "10\.0\.0\.0\/8"$/],
    ['192.168.7.129/25', /write "192\.168\.7\.128\/25"$/],
    ['fd00::1/8', /inside the range: write "fd00::\/8"$/],
    ['FD00::/8', /not how the range is written: write "fd00::\/8"$/],
    ['fd00:0:0:0:0:0:0:0/8', /not how the range is written: write "fd00::\/8"$/],
    ['10.0.0.0/08', /not how the range is written: write "10\.0\.0\.0\/8"$/],
    ['10.0.0.0/33', /the length of such a range is 0 to 32$/],
    ['fd00::/129', /the length of such a range is 0 to 128$/],
    ['::ffff:10.0.0.0/104', /guise of IPv6/],
    ['::ffff:a00:0/104', /guise of IPv6/],
  ];
  for (const [text, expected] of faulty) it(`${text} is not`, () => assert.match(cidrFault(text) ?? '', expected));

  const none = ['', '10.0.0.0', '10/8', '10.0.0/8', '010.0.0.0/8', '10.0.0.256/32', '0x0a.0.0.0/8', '167772160/8'];
  const also = ['10.0.0.0/-1', '10.0.0.0/8 ', ' 10.0.0.0/8', '10.0.0.0/8/8', 'fe80::%eth0/64', '[::1]/128', ':::/0'];
  for (const text of [...none, ...also, '::1::/64', 'lan', 'localhost/8', '10.0.0.0/255.0.0.0', '/8', ':/8', './8'])
    it(`${JSON.stringify(text)} is none`, () => assert.match(cidrFault(text) ?? '', /is no range/));

  it('written as their fault says are taken, and hold the address that was written first', () => {
    const v4 = fc.tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 }));
    const v6 = fc.tuple(fc.ipV6(), fc.integer({ min: 0, max: 128 }));
    fc.assert(
      fc.property(fc.oneof(v4, v6), ([address, length]) => {
        const fault = cidrFault(`${address}/${length}`);
        if (/guise of IPv6/.test(fault ?? '')) return;
        const advised = fault === undefined ? `${address}/${length}` : (/write "(.*)"$/.exec(fault)?.[1] ?? '');
        assert.equal(cidrFault(advised), undefined, advised);
        const family = isIPv6(address) ? 'ipv6' : 'ipv4';
        const list = new BlockList();
        list.addSubnet(advised.split('/')[0] ?? '', length, family);
        assert.ok(list.check(address, family), `${advised} holds ${address}`);
        assert.ok(advised.endsWith(`/${length}`));
      }),
    );
  });
});
