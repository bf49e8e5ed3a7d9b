import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  type Address,
  type AddressClass,
  cidr,
  classifyAddress,
  describeAddress,
  parseAddress,
  within,
} from './address.ts';

/** First, last, and the neighbours outside where these are public. */
const ipv4Ranges: readonly [range: string, first: string, last: string, ...outside: string[]][] = [
  ['0/8', '0.0.0.0', '0.255.255.255', '1.0.0.0'],
  ['10/8', '10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
  ['100.64/10', '100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
  ['127/8', '127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
  ['169.254/16', '169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
  ['172.16/12', '172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
  ['192.0.0/24', '192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
  ['192.0.2/24', '192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
  ['192.88.99/24', '192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
  ['192.168/16', '192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
  ['198.18/15', '198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
  ['198.51.100/24', '198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
  ['203.0.113/24', '203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
  ['224/4', '224.0.0.0', '239.255.255.255', '223.255.255.255'],
  ['240/4', '240.0.0.0', '255.255.255.255'],
  ['168.63.129.16', '168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
];

const ipv6Ranges: readonly [range: string, first: string, last: string, ...outside: string[]][] = [
  ['below 2000::/3', '::', last('1fff'), '2000::'],
  ['above 2000::/3', '4000::', last('ffff'), '3fff:1000::'],
  ['Teredo 2001::/32', '2001::', last('2001:0'), last('2000')],
  ['assignments 2001::/23', '2001:1::', last('2001:1ff'), '2001:200::'],
  ['documentation 2001:db8::/32', '2001:db8::', last('2001:db8'), last('2001:db7'), '2001:db9::'],
  ['6to4 2002::/16', '2002::', last('2002'), last('2001'), '2003::'],
  ['documentation 3fff::/20', '3fff::', last('3fff:fff'), last('3ffe'), '3fff:1000::'],
  ['mapped', '::ffff:0:0', '::ffff:ffff:ffff'],
  ['mapped, dotted', '::ffff:0.0.0.0', '::ffff:8.8.8.8'],
  ['compatible', '::2', '::ffff:ffff'],
  ['compatible, dotted', '::7f00:1', '::8.8.8.8'],
  ['translated', '::ffff:0:0:0', '::ffff:0:ffff:ffff'],
  ['NAT64', '64:ff9b::', '64:ff9b::ffff:ffff'],
  ['NAT64 of a network', '64:ff9b:1::', last('64:ff9b:1')],
  ['discard 100::/64', '100::', '100::ffff:ffff:ffff:ffff'],
  ['unique local fc00::/7', 'fc00::', last('fdff')],
  ['link-local fe80::/10', 'fe80::', last('febf')],
  ['site-local fec0::/10', 'fec0::', last('feff')],
  ['multicast ff00::/8', 'ff00::', 'ff02::1'],
  ['ISATAP', '2600::5efe:a00:1', '2600::5efe:ffff:ffff', '2600::5eff:a00:1', '2600::5efd:a00:1', '2600::1:5efe:a00:1'],
  ['ISATAP, universal bit', '2600::200:5efe:a00:1', '2600::300:5efe:a00:1', '2600::400:5efe:a00:1'],
];

describe('an address', () => {
  for (const [range, first, end, ...outside] of [...ipv4Ranges, ...ipv6Ranges]) {
    it(`of ${range} is not public, from ${first} to ${end}`, () => {
      for (const text of [first, end]) {
        const verdict = judge(text);
        assert.ok(verdict === 'closed' || verdict === 'never', `${text}: ${verdict}`);
        assert.equal(typeof describeAddress(address(text)), 'string');
      }
    });
    for (const text of outside) {
      it(`${text}, just outside ${range}, is public`, () => {
        assert.equal(judge(text), 'public');
        assert.equal(describeAddress(address(text)), undefined);
      });
    }
  }

  for (const [text, nature] of [
    ['100::1', 'discarded'],
    ['fd00::1', 'private network'],
    ['fe80::1', 'link-local'],
    ['fec0::1', 'site-local'],
    ['5f00::1', 'outside the public IPv6 range 2000::/3'],
    ['255.255.255.255', 'broadcast'],
    ['240.0.0.1', 'reserved'],
    ['2001::1', 'an IPv4 address inside an IPv6 address'],
    ['2001:1::1', 'protocol assignments'],
  ] as const) {
    it(`${text} is named for what it is: ${nature}`, () => assert.equal(describeAddress(address(text)), nature));
  }

  it('is read strictly: parts, radix, leading zeros, zones and brackets', () => {
    const words = [
      '1 127.1 1.2.3 1.2.3.4.5 010.0.0.1 0x7f.0.0.1 256.0.0.1 1.2.3.4%1 fe80::1%eth0 fe80::1%2 [::1] ::1] ::: 1::2::3',
      '::12345 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 g:: localhost ::ffff:1.2.3.256 1.2.3.4/32',
    ];
    const wrong = ['', '1.2.3.4 ', ' 1.2.3.4', '::1\n', ...words.join(' ').split(' ')];
    for (const text of wrong) assert.equal(parseAddress(text), undefined, JSON.stringify(text));
  });

  it('has the text that a URL gives it, whichever its spelling', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const parsed = parseAddress(text);
        const host = URL.parse(text.includes(':') ? `https://[${text}]/` : `https://${text}/`)?.hostname;
        assert.ok(parsed !== undefined && host !== undefined);
        // ipaddr.js takes a compatible address in dotted form for a mapped one: both are never called.
        if (/^::[\d.]+$/.test(text) && text.includes('.')) return assert.equal(judge(text), 'never');
        const again = parsed.toString();
        const written = URL.parse(parsed.kind() === 'ipv6' ? `https://[${again}]/` : `https://${again}/`);
        assert.equal(written?.hostname, host);
        if (judge(text) === 'public') assert.equal(again, host.replace(/^\[|\]$/g, ''));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a range that is allowed', () => {
  const rows: readonly [allow: string, address: string, verdict: AddressClass][] = [
    ['10.1.2.0/24', '10.1.2.0', 'allowed'],
    ['10.1.2.0/24', '10.1.2.255', 'allowed'],
    ['10.1.2.0/24', '10.1.1.255', 'closed'],
    ['10.1.2.0/24', '10.1.3.0', 'closed'],
    ['10.1.2.0/24', '8.8.8.8', 'public'],
    ['10.1.2.9/24', '10.1.2.1', 'allowed'],
    ['10.1.2.7/32', '10.1.2.7', 'allowed'],
    ['10.1.2.7/32', '10.1.2.6', 'closed'],
    ['127.0.0.0/8', '127.0.0.1', 'allowed'],
    ['127.0.0.1/32', '127.0.0.2', 'closed'],
    ['::1/128', '::1', 'allowed'],
    ['fd00:1::/64', 'fd00:1::5', 'allowed'],
    ['fd00:1::/64', 'fd00:1:0:1::5', 'closed'],
    ['168.63.129.16/32', '168.63.129.16', 'allowed'],
    ['8.8.8.0/24', '8.8.8.8', 'allowed'],
    ['10.0.0.0/8', '::ffff:10.0.0.1', 'never'],
    ['10.0.0.0/8', '::ffff:a00:1', 'never'],
    ['10.0.0.0/8', '::a00:1', 'never'],
    ['10.0.0.0/8', '64:ff9b::a00:1', 'never'],
    ['10.0.0.0/8', '2002:a00:1::', 'never'],
    ['10.0.0.0/8', '2600::5efe:a00:1', 'never'],
    ['10.0.0.0/8', 'fd00::a00:1', 'closed'],
    ['::ffff:10.0.0.0/104', '::ffff:10.0.0.1', 'never'],
    ['0.0.0.0/0', '10.0.0.1', 'allowed'],
    ['0.0.0.0/0', '0.0.0.0', 'never'],
    ['0.0.0.0/0', '224.0.0.1', 'never'],
    ['0.0.0.0/0', '255.255.255.255', 'never'],
    ['0.0.0.0/0', '::1', 'closed'],
    ['::/0', '::1', 'allowed'],
    ['::/0', '::', 'never'],
    ['::/0', '::ffff:10.0.0.1', 'never'],
    ['::/0', '::ffff:0:10.0.0.1', 'never'],
    ['::/0', '64:ff9b:1::1', 'never'],
    ['::/0', '2001::1', 'never'],
    ['::/0', 'ff02::1', 'never'],
    ['::/0', '10.0.0.1', 'closed'],
  ];
  for (const [allow, text, verdict] of rows) {
    it(`${allow} leaves ${text} ${verdict}`, () => assert.equal(judge(text, [allow]), verdict));
  }

  const own: readonly [address: string, allow: readonly string[], verdict: AddressClass][] = [
    ['10.1.2.7', [], 'own'],
    ['10.1.2.7', ['10.1.2.0/24'], 'own'],
    ['10.1.2.7', ['10.1.2.6/31'], 'own'],
    ['10.1.2.7', ['10.1.2.7/32'], 'allowed'],
    ['10.1.2.7', ['10.1.2.0/24', '10.1.2.7/32'], 'allowed'],
    ['10.1.2.8', ['10.1.2.0/24'], 'allowed'],
    ['93.184.216.34', [], 'own'],
    ['93.184.216.34', ['0.0.0.0/0'], 'own'],
    ['93.184.216.34', ['93.184.216.34/32'], 'allowed'],
    ['93.184.216.35', [], 'public'],
    ['2600:1::7', [], 'own'],
    ['2600:1::7', ['2600:1::/64'], 'own'],
    ['2600:1::7', ['2600:1::7/128'], 'allowed'],
    ['127.0.0.1', [], 'closed'],
    ['127.0.0.1', ['127.0.0.0/8'], 'allowed'],
    ['::1', ['::/64'], 'allowed'],
    ['::1', [], 'closed'],
  ];
  for (const [text, allow, verdict] of own) {
    it(`leaves ${text}, among the device's own, ${verdict} with [${allow.join()}]`, () => {
      const mine = ['127.0.0.1', '::1', '10.1.2.7', '93.184.216.34', '2600:1::7'];
      assert.equal(judge(text, allow, mine), verdict);
    });
  }

  it('holds its first and last address and nothing of the other family', () => {
    const range = cidr('192.168.4.0/22');
    assert.deepEqual(
      ['192.168.3.255', '192.168.4.0', '192.168.7.255', '192.168.8.0', '::c0a8:400'].map((one) =>
        within(address(one), range),
      ),
      [false, true, true, false, false],
    );
  });
});

function judge(text: string, allow: readonly string[] = [], own: readonly string[] = []): AddressClass {
  return classifyAddress(address(text), allow.map(cidr), own.map(address));
}

/** The last IPv6 address that begins so. */
function last(begin: string): string {
  return `${begin}${':ffff'.repeat(8 - begin.split(':').length)}`;
}

function address(text: string): Address {
  const parsed = parseAddress(text);
  assert.ok(parsed !== undefined, text);
  return parsed;
}
