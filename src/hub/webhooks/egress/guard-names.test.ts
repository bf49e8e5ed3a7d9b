import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { forever, otherPublic, publicAddress, refusal, site } from './guard.fixture.ts';
import { EgressGuard } from './guard.ts';
import { keepMs, Resolver } from './resolver.ts';

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

  it('tells faults of the form and of where it leads together', async () => {
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

  it('does not ask for a caller that has given up', async () => {
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
