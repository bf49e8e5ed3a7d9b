/** Any text at all as a URL: it is judged without throwing, and what is accepted is public by another hand's list (node:net). */

import assert from 'node:assert/strict';
import { BlockList, isIP } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { codePoint } from '../../../shared/base/text.fixture.ts';
import { publicAddress, site } from './guard.fixture.ts';
import { EgressRefused } from './guard.ts';

const closed4 = blockList('ipv4', [
  ...'0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24'.split(' '),
  ...'192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24'.split(' '),
  ...'224.0.0.0/4 240.0.0.0/4 168.63.129.16/32'.split(' '),
]);
const open6 = blockList('ipv6', ['2000::/3']);
const closed6 = blockList('ipv6', ['2001::/32', '2001:db8::/32', '2002::/16', '3fff::/20']);

const byte = fc.integer({ min: 0, max: 255 });
/** Half of them in ranges that are closed, or beside them. */
const quad = fc.oneof(
  fc.tuple(byte, byte, byte, byte),
  fc.tuple(fc.constantFrom(0, 10, 127, 169, 172, 192, 198, 224, 255), byte, byte, byte),
  fc.constantFrom([169, 254, 169, 254], [168, 63, 129, 16], [192, 168, 0, 1], [100, 64, 0, 1], [93, 184, 216, 34]),
);
const number = quad.map(([a = 0, b = 0, c = 0, d = 0]) => ((a * 256 + b) * 256 + c) * 256 + d);
const dotted = quad.map((parts) => parts.join('.'));
const group = fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16));
const host = fc.oneof(
  dotted,
  number.map(String),
  number.map((n) => `0x${n.toString(16)}`),
  number.map((n) => `0${n.toString(8)}`),
  quad.map(([a = 0, b = 0, c = 0, d = 0]) => `0x${a.toString(16)}.0${b.toString(8)}.${c * 256 + d}`),
  dotted.map((text) => text.replace(/\d/g, (digit) => String.fromCharCode(0xff10 + Number(digit)))),
  dotted.map((text) => text.replace(/\d/g, (digit) => `%3${digit}`)),
  dotted.map((text) => text.replaceAll('.', '\u3002')),
  fc.ipV6().map((text) => `[${text}]`),
  fc
    .tuple(fc.constantFrom('2600', '2001', '2002', '3fff', 'fe80', '64'), group, group)
    .map((g) => `[${g.join(':')}::1]`),
  fc.tuple(fc.constantFrom('::ffff:', '::', '64:ff9b::', '2600::5efe:'), dotted).map((pair) => `[${pair.join('')}]`),
  fc.constantFrom('localhost', 'x.localhost', 'printer.local', 'intranet', 'hooks.example', '0', '[::1]'),
  fc.domain(),
  fc.string({ unit: codePoint, maxLength: 12 }),
);
const assembled = fc
  .tuple(
    fc.oneof(
      { weight: 6, arbitrary: fc.constant('https://') },
      fc.constantFrom('https:', 'https:///', 'http://', 'HTTPS:\\\\'),
    ),
    fc.oneof(
      { weight: 6, arbitrary: fc.constant('') },
      fc.constantFrom('a@', '@', 'hooks.example\\@', 'hooks.example#@'),
    ),
    host,
    fc.oneof({ weight: 6, arbitrary: fc.constant('') }, fc.constantFrom('.', '..', ':443', ':8443', ':0', ':99999')),
    fc.oneof(
      { weight: 6, arbitrary: fc.constant('/in') },
      fc.string({ unit: codePoint }),
      fc.constantFrom('', '#@127.0.0.1'),
    ),
  )
  .map((parts) => parts.join(''));
const anyText = fc.oneof(
  { weight: 6, arbitrary: assembled },
  fc.string({ unit: codePoint, maxLength: 200 }),
  fc.webUrl({ validSchemes: ['https'], withFragments: true, withQueryParameters: true }),
);

describe('the egress guard, of any text as a URL,', () => {
  it('never throws, and accepts no address that is not public while no range is allowed', async () => {
    const names = new Proxy<Record<string, readonly string[]>>({}, { get: () => [publicAddress] });
    const { egress } = site({ names, own: ['127.0.0.1'] });
    const seen = { literals: 0, names: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(anyText, async (text) => {
        const faults = await egress.faults(text);
        const target = await egress.target(text, new AbortController().signal).catch((error: unknown) => {
          assert.ok(error instanceof EgressRefused, String(error));
          assert.deepEqual(error.reasons, faults);
        });
        assert.equal(target === undefined, faults.length > 0);
        if (target === undefined) return void (seen.refused += 1);
        assert.equal(target.port, 443);
        const hostname = (URL.parse(text)?.hostname ?? '').replace(/^\[|\]$/g, '');
        if (isIP(hostname) === 0) return void (seen.names += 1);
        seen.literals += 1;
        assert.deepEqual(
          target.addresses.map(({ address }) => address),
          [hostname],
        );
        assert.ok(isPublic(hostname), `${text} leads to ${hostname}`);
      }),
      { numRuns: 3_000 },
    );
    // Each way was gone often enough to mean something.
    for (const [way, count] of Object.entries(seen)) assert.ok(count > 100, `${way}: ${count}`);
  });
});

function isPublic(address: string): boolean {
  if (isIP(address) === 4) return !closed4.check(address, 'ipv4');
  return (
    open6.check(address, 'ipv6') &&
    !closed6.check(address, 'ipv6') &&
    !/(^|:)[0-3]?0?0?:?5efe:[^:]+:[^:]+$/.test(address)
  );
}

function blockList(family: 'ipv4' | 'ipv6', cidrs: readonly string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', bits = ''] = cidr.split('/');
    list.addSubnet(base, Number(bits), family);
  }
  return list;
}
