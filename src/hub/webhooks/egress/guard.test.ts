import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { describe, it } from 'node:test';
import { systemClock } from '../../../shared/base/clock.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { forever, otherPublic, publicAddress, refusal, site } from './guard.fixture.ts';
import { EgressGuard } from './guard.ts';
import { keepMs, Resolver } from './resolver.ts';

describe('the egress guard, of a URL whose host is an address,', () => {
  const loopbacks = [
    ...'2130706433 0x7f000001 017700000001 0177.0.0.1 127.1 127.0.1 0x7f.1 127.0.0.1.'.split(' '),
    ...'127.0.0.1 0177.0.0.01 127.000.000.001 0x7F.0x0.0x0.0x1 %31%32%37.0.0.1 127%2E0%2E0%2E1'.split(' '),
    '\uFF11\uFF12\uFF17.\uFF10.\uFF10.\uFF11',
    '\u2460\u2461\u2466.\u24EA.\u24EA.\u2460',
    '127\u30020\u30020\u30021',
    '127\uFF0E0\uFF0E0\uFF0E1',
    '127\uFF610\uFF610\uFF611',
    '127.0.\u00AD0.1',
    '127.0.\t0.1',
    'user:word@127.0.0.1',
    'hooks.example@127.0.0.1',
    '127.0.0.1#@hooks.example',
    '127.0.0.1\\@hooks.example',
    '127.0.0.1:8443',
  ];
  for (const url of [...loopbacks.map((host) => `https://${host}/`), 'https:127.0.0.1', 'https:///127.0.0.1/']) {
    it(`sees 127.0.0.1 in ${JSON.stringify(url)}`, async () => {
      const { egress, asked } = site({ ports: [8443] });
      const reasons = await egress.faults(url);
      assert.ok(
        reasons.includes('the address 127.0.0.1 is not public (loopback) and not in webhooks.allow_cidrs'),
        reasons.join('; '),
      );
      assert.deepEqual(await refusal(egress.target(url, forever)), reasons);
      assert.deepEqual(asked, []);
    });
  }

  for (const [host, reason] of [
    ['0', 'the address 0.0.0.0 is never called (this host)'],
    ['10.0.0.1', 'the address 10.0.0.1 is not public (private network) and not in webhooks.allow_cidrs'],
    ['[::1]', 'the address ::1 is not public (loopback) and not in webhooks.allow_cidrs'],
    ['[::ffff:127.0.0.1]', 'the address ::ffff:7f00:1 is never called (an IPv4 address inside an IPv6 address)'],
    ['[64:ff9b::7f00:1]', 'the address 64:ff9b::7f00:1 is never called (an IPv4 address inside an IPv6 address)'],
  ] as const) {
    it(`refuses ${host}`, async () => {
      const { egress } = site();
      assert.deepEqual(await egress.faults(`https://${host}/`), [reason]);
      assert.deepEqual(await refusal(egress.target(`https://${host}/`, forever)), [reason]);
    });
  }

  it('takes public ones, without asking the resolver', async () => {
    const { egress, asked } = site();
    for (const [url, address, family] of [
      ['https://93.184.216.34/in', '93.184.216.34', 4],
      ['https://0x5db8d822/in', '93.184.216.34', 4],
      ['https://[2600:1::34]/in', '2600:1::34', 6],
    ] as const) {
      assert.deepEqual(await egress.faults(url), []);
      assert.deepEqual(await egress.target(url, forever), {
        hostname: address,
        port: 443,
        addresses: [{ address, family }],
      });
    }
    assert.deepEqual(asked, []);
  });

  it('calls nothing while the device cannot list its own addresses', async () => {
    const clock = new FakeClock();
    const ownAddresses = () => {
      throw new Error('EAFNOSUPPORT');
    };
    const options = { allowCidrs: [], allowPorts: [], clock, ownAddresses };
    const egress = new EgressGuard({ ...options, resolver: new Resolver(clock) });
    const url = 'https://93.184.216.34/';
    assert.match((await egress.faults(url))[0] ?? '', /own addresses cannot be listed: EAFNOSUPPORT/);
    assert.match((await refusal(egress.target(url, forever)))[0] ?? '', /cannot be listed/);
    assert.equal(egress.mayCall('93.184.216.34', 443), false);
  });
});

describe('the egress guard, of ports,', () => {
  for (const [url, site_, expected] of [
    ['https://93.184.216.34:8443/', {}, 1],
    ['https://93.184.216.34:8443/', { ports: [8443] }, 0],
    ['https://93.184.216.34:8444/', { ports: [8443] }, 1],
    ['https://93.184.216.34/', { ports: [8443] }, 0],
    ['https://93.184.216.34:80/', {}, 1],
    ['https://93.184.216.34:8443/', { allow: ['93.184.216.0/24'] }, 0],
    ['https://93.184.216.34:8443/', { allow: ['10.0.0.0/8'] }, 1],
    ['https://gone.example:8443/', {}, 1],
    ['https://gone.example:8443/', { ports: [8443] }, 0],
    ['https://gone.example:8443/', { allow: ['10.0.0.0/8'] }, 0],
    ['https://site.example:8443/', { allow: ['10.0.0.0/8'], names: { 'site.example': ['10.0.0.1'] } }, 0],
    ['https://site.example:8443/', { allow: ['10.0.0.0/8'], names: { 'site.example': [publicAddress] } }, 1],
    [
      'https://site.example:8443/',
      { allow: ['10.0.0.0/8'], names: { 'site.example': ['10.0.0.1', publicAddress] } },
      1,
    ],
  ] as const) {
    it(`${expected === 0 ? 'takes' : 'refuses'} ${url} with ${JSON.stringify(site_)}`, async () => {
      const port = URL.parse(url)?.port;
      const reason = `port ${port} is not open for public addresses: only 443 and webhooks.allow_ports are`;
      assert.deepEqual(await site(site_).egress.faults(url), expected === 0 ? [] : [reason]);
    });
  }

  it('never calls port 0', async () => {
    const { egress } = site({ allow: ['10.0.0.0/8'] });
    assert.deepEqual(await egress.faults('https://10.0.0.1:0/'), ['port 0 cannot be called']);
    assert.equal(egress.mayCall('10.0.0.1', 0), false);
  });
});

describe('the egress guard, of the address of a socket,', () => {
  const { egress } = site({ allow: ['10.0.0.0/8'], ports: [8443], own: ['10.0.0.1', '93.184.216.1'] });
  for (const [address, port, may] of [
    [publicAddress, 443, true],
    [publicAddress, 8443, true],
    [publicAddress, 80, false],
    [otherPublic, 443, true],
    ['10.0.0.2', 12_345, true],
    ['10.0.0.1', 443, false],
    ['93.184.216.1', 443, false],
    ['127.0.0.1', 443, false],
    ['::ffff:10.0.0.2', 443, false],
    ['fe80::1%eth0', 443, false],
    ['', 443, false],
    ['hooks.example', 443, false],
  ] as const) {
    it(`${may ? 'allows' : 'forbids'} ${JSON.stringify(address)} at ${port}`, () =>
      assert.equal(egress.mayCall(address, port), may));
  }
});

describe('the egress guard, of itself,', () => {
  it("asks the system's resolver and interfaces by default", async () => {
    const real = (...allowCidrs: string[]) =>
      new EgressGuard({ allowCidrs, allowPorts: [], clock: systemClock, resolver: new Resolver(systemClock) });
    const closed = real('10.255.255.255/32');
    assert.deepEqual(await closed.faults('https://localhost/'), [
      'the name localhost leads to an address that is neither public nor in webhooks.allow_cidrs',
    ]);
    const open = real('127.0.0.0/8', '::1/128');
    const { addresses } = await open.target('https://localhost:9443/', forever);
    assert.ok(addresses.some(({ address }) => address === '127.0.0.1' || address === '::1'));
    const all = real('0.0.0.0/0');
    const own = Object.values(networkInterfaces()).flatMap((list = []) => list);
    assert.ok(own.length > 0);
    for (const { address, internal, family } of own) {
      assert.equal(all.mayCall(address, 443), internal && family === 'IPv4', address);
    }
  });
});

describe('the egress guard, of a URL whose host is a name,', () => {
  it('takes it with all its addresses, each once, as they were judged', async () => {
    const names = { 'hooks.example': [otherPublic.toUpperCase(), publicAddress, publicAddress] };
    const { egress, clock } = site({ names });
    assert.deepEqual(await egress.faults('https://hooks.example/in'), []);
    assert.equal(clock.pendingTimers, 0);
    assert.deepEqual(await egress.target('https://hooks.example/in', forever), {
      hostname: 'hooks.example',
      port: 443,
      addresses: [
        { address: otherPublic, family: 6 },
        { address: publicAddress, family: 4 },
      ],
    });
  });

  const bad = [
    ...'127.0.0.1 10.11.12.13 169.254.169.254 0.0.0.0 255.255.255.255 224.0.0.251 ::1 ::'.split(' '),
    ...'::ffff:10.11.12.13 ::a0b:c0d 64:ff9b::a0b:c0d fd00:11::12 fe80::1%eth0 fe80::1 192.168.9.9'.split(' '),
    '2002:a0b:c0d::',
    'not an address',
    '10.11.12',
    '',
  ];
  for (const address of bad) {
    it(`refuses it as a whole for ${JSON.stringify(address)} among public ones, and does not show that`, async () => {
      const names = { 'mixed.example': [publicAddress, address, otherPublic], 'bad.example': [address] };
      const own = ['192.168.9.9'];
      for (const name of Object.keys(names)) {
        const { egress } = site({ names, own });
        const reasons = await egress.faults(`https://${name}/in`);
        assert.equal(reasons.length, 1);
        assert.deepEqual(await refusal(egress.target(`https://${name}/in`, forever)), reasons);
        assert.match(reasons[0] ?? '', new RegExp(`the name ${name} leads to`));
        assert.doesNotMatch(reasons[0] ?? '', /\d+\.\d+|[\da-f]*:[\da-f]*:/i);
      }
    });
  }

  it('says each kind of reason once, whatever the number of addresses', async () => {
    const names = { 'mixed.example': ['10.0.0.1', '10.0.0.2', '0.0.0.0', '192.168.9.9', '::'] };
    const { egress } = site({ names, own: ['192.168.9.9'] });
    const reasons = await refusal(egress.target('https://mixed.example/', forever));
    assert.deepEqual(await egress.faults('https://mixed.example/'), reasons);
    assert.deepEqual(reasons, [
      'the name mixed.example leads to an address that is neither public nor in webhooks.allow_cidrs',
      "the name mixed.example leads to an address that is never called (multicast, this host, a link's, IPv4 inside IPv6)",
      'the name mixed.example leads to this device: only that very address in webhooks.allow_cidrs opens it',
    ]);
  });

  it('reports faults of the form and of the addresses together', async () => {
    const { egress } = site({ names: { 'bad.example': ['10.0.0.1'] } });
    const reasons = await egress.faults('https://user@bad.example:8443/');
    assert.equal(reasons.length, 3);
    assert.match(reasons.join('\n'), /user name.*\n.*port 8443.*\n.*neither public/);
  });

  it('judges again at each call: one that was public and then private is refused', async () => {
    const names: Record<string, readonly string[]> = { 'rebind.example': [publicAddress] };
    const { egress, clock } = site({ names });
    assert.deepEqual(await egress.faults('https://rebind.example/'), []);
    names['rebind.example'] = ['127.0.0.1'];
    // Within the 5 s the answer that was judged is the one that is dialled.
    const target = await egress.target('https://rebind.example/', forever);
    assert.deepEqual(target.addresses, [{ address: publicAddress, family: 4 }]);
    clock.advance(keepMs);
    assert.deepEqual(await refusal(egress.target('https://rebind.example/', forever)), [
      'the name rebind.example leads to an address that is neither public nor in webhooks.allow_cidrs',
    ]);
  });

  it('has no fault at registration when it does not resolve, and is unresolved when it is called', async () => {
    const { egress } = site();
    assert.deepEqual(await egress.faults('https://gone.example/'), []);
    const unresolved = { name: 'NameUnresolved', code: 'ENOTFOUND' };
    await assert.rejects(egress.target('https://gone.example/', forever), unresolved);
  });

  it('waits 2 s for a name at registration, and without end at a call but for the signal', async () => {
    const clock = new FakeClock();
    const resolver = new Resolver(clock, () => new Promise(() => undefined));
    const egress = new EgressGuard({ allowCidrs: [], allowPorts: [], clock, ownAddresses: () => [], resolver });
    const faults = egress.faults('https://user@slow.example/');
    const caller = new AbortController();
    let ended = false;
    const target = egress.target('https://slow.example/', caller.signal).finally(() => {
      ended = true;
    });
    clock.advance(2_000);
    assert.deepEqual(await faults, ['the URL must not hold a user name or password']);
    assert.equal(clock.pendingTimers, 0);
    clock.advance(3_600_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(ended, false);
    const reason = new Error('enough');
    caller.abort(reason);
    await assert.rejects(target, reason);
  });

  it('resolves nothing for a caller that has cancelled', async () => {
    const { egress, asked } = site();
    await assert.rejects(egress.target('https://gone.example/', AbortSignal.abort(new Error('enough'))), /enough/);
    assert.deepEqual(asked, []);
  });
});

describe('the egress guard, of a local name,', () => {
  const names = { localhost: ['127.0.0.1', '::1'], 'plc.local': ['10.0.0.9'], intranet: [publicAddress] };
  for (const host of 'localhost localhost. x.localhost plc.local a.internal intranet loc\u00ADalhost'.split(' ')) {
    it(`refuses ${JSON.stringify(host)} without a look-up while no range is allowed`, async () => {
      const { egress, asked } = site({ names });
      const reasons = await egress.faults(`https://${host}/`);
      assert.match(reasons.join('; '), /is a local one: every address it leads to must lie in webhooks\.allow_cidrs/);
      assert.deepEqual(await refusal(egress.target(`https://${host}/`, forever)), reasons);
      assert.deepEqual(asked, []);
    });
  }

  it('opens it when every address that it has lies in an allowed range', async () => {
    const { egress } = site({ names, allow: ['127.0.0.0/8', '::1/128', '10.0.0.0/24'] });
    for (const host of ['localhost:9443', 'plc.local']) {
      assert.deepEqual(await egress.faults(`https://${host}/`), []);
      assert.ok((await egress.target(`https://${host}/`, forever)).addresses.length > 0);
    }
  });

  it('refuses it when one address does not, a public one included', async () => {
    const { egress } = site({ names, allow: ['127.0.0.0/8'] });
    assert.deepEqual(await egress.faults('https://localhost/'), [
      'the name localhost leads to an address that is neither public nor in webhooks.allow_cidrs',
    ]);
    for (const url of ['https://intranet/', 'https://intranet:9/']) {
      assert.deepEqual(await refusal(egress.target(url, forever)), [
        'the name intranet is a local one: every address it leads to must lie in webhooks.allow_cidrs',
      ]);
    }
  });
});
