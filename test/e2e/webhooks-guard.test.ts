/**
 * Where the hub may be made to call, and where not, on a site of its own: a box and a world with real addresses, a name server
 * that moves names while they are used, and traps that would know of any connection that should not be.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { PingResult } from '../../src/shared/gen/http.ts';
import { type Hub, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import { apiOf, create, dictionary, refused } from './hub-support.ts';
import { ABYSS, BOX, BOX_PUBLIC, makeSite, PRIVATE, PUBLIC, type Zone } from './site.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  deliveriesOf,
  deliveryWhen,
  HOOKS,
  hasEnded,
  SECRET,
  settled,
  subscribe,
  webhooksConfig,
} from './webhooks-support.ts';

const HOSTS = ['127.0.0.1 localhost', '127.0.0.1 hosts-loop.site.test', `${PUBLIC} hosts-public.site.test`];
const TIMEOUT_MS = 1_500;
/** The hub keeps what a name led to for 5 s: the attempts reach beyond that. */
const SCHEDULE_S = [0, 0, 1, 2, 2, 2, 2, 3_600];
/** A trap. */
const PROXY = 'http://127.0.0.1:443';
const NEVER = '0.0.0.0';

const site = makeSite(HOSTS);
const skip = typeof site === 'string' ? `no network of its own here: ${site}` : false;

let names: Zone = {
  'public.site.test': [[PUBLIC]],
  'named-otherwise.test': [[PUBLIC]],
  'dual.site.test': [[PUBLIC, '2600:1::34']],
  'private.site.test': [[PRIVATE]],
  'mixed.site.test': [[PUBLIC, PRIVATE]],
  'mixed-six.site.test': [[PUBLIC, 'fd00::7']],
  'mapped.site.test': [[`::ffff:${PRIVATE}`]],
  'never.site.test': [[NEVER]],
  'own.site.test': [[BOX_PUBLIC]],
  'silent.site.test': 'drop',
  'abyss.site.test': [[ABYSS]],
  'mes.lan': [[PRIVATE]],
  'printer.local': [[PUBLIC]],
  'intern.site.test': [[PRIVATE]],
  'half-intern.site.test': [[PRIVATE, '10.9.9.9']],
};

describe('the egress guard', { skip }, () => {
  let outside: Receiver;
  /** At addresses that must not be called, with certificates that the hub would take. */
  let trap: Receiver;
  let boxTrap: Receiver;
  let inside: Receiver;
  let strict: HubApi;
  let open: HubApi;
  const hubs: Hub[] = [];

  before(async () => {
    if (typeof site === 'string') return;
    const receiverAt = (wrapper: readonly string[], host: string, port: number) => {
      const addresses = [PUBLIC, PRIVATE, BOX, BOX_PUBLIC, '127.0.0.1'].map((one) => `IP:${one}`);
      const all = ['DNS:*.site.test', 'DNS:mes.lan', 'DNS:localhost', ...addresses].join(',');
      return startReceiver(undefined, { secrets: [SECRET], names: all, host, port, wrapper });
    };
    [outside, trap, boxTrap, inside] = await Promise.all([
      receiverAt(site.world, PUBLIC, 443),
      receiverAt(site.world, PRIVATE, 443),
      receiverAt(site.box, '0.0.0.0', 443),
      receiverAt(site.world, PRIVATE, 8443),
    ]);
    await site.zone(names);
    hubs.push(...(await Promise.all([start([]), start(['10.9.8.0/24', '192.168.77.0/24'])])));
    [strict, open] = hubs.map(apiOf) as [HubApi, HubApi];
    await dictionary(strict, 'changes');
    await dictionary(open, 'changes');
  });

  function start(allowed: readonly string[]): Promise<Hub> {
    if (typeof site === 'string') throw new Error(site);
    const proxies = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'];
    const env = { NODE_USE_ENV_PROXY: '1', ...Object.fromEntries(proxies.map((name) => [name, PROXY])) };
    const more = { schedule_s: SCHEDULE_S, timeout_ms: TIMEOUT_MS, allow_cidrs: allowed };
    const config = webhooksConfig([outside, trap, boxTrap, inside], more);
    return startHub({ config, env, wrapper: site.box });
  }

  async function moveName(name: string, to: Zone[string]): Promise<void> {
    names = { ...names, [name]: to };
    if (typeof site !== 'string') await site.zone(names);
  }

  function registration(api: HubApi, url: string) {
    return api.post(`${HOOKS}/subscriptions`, { name: 'forbidden', url, secret: SECRET });
  }

  async function ping(api: HubApi, url: string): Promise<PingResult> {
    const answer = await until('a place for a test-ping', async () => {
      const one = await api.post(`${HOOKS}/test-ping`, { url, secret: SECRET });
      return one.status !== 429 && one;
    });
    assert.equal(answer.status, 200, answer.text);
    return answer.body as unknown as PingResult;
  }

  /** Refused at registration and by a test-ping for the same reasons. */
  async function assertRefused(api: HubApi, url: string, ...patterns: readonly RegExp[]): Promise<void> {
    const { reasons = [] } = await refused(422, 'INVALID_ARGUMENT', registration(api, url));
    assert.equal(reasons.length, patterns.length, `${url}: ${reasons.join('; ')}`);
    for (const [at, pattern] of patterns.entries()) assert.match(reasons[at] ?? '', pattern, url);
    const pinged = await ping(api, url);
    assert.deepEqual(
      [pinged.success, pinged.statusCode, pinged.error?.kind, pinged.error?.reasons],
      [false, null, 'ssrf', reasons.map((reason) => reason.replace(/^\/url: /, ''))],
      url,
    );
  }

  describe('of a hub on a site', { concurrency: true }, () => {
    test('refuses what must not be called, at registration and by a test-ping, with every fault at once; it shows no address', async () => {
      for (const [url, ...patterns] of [
        ['https://0x7f.1/', /^\/url: the address 127\.0\.0\.1 is not public \(loopback\)/],
        ['https://[::ffff:10.9.8.7]/', /inside an IPv6 address/],
        [`https://${BOX_PUBLIC}/`, /is the device's own/],
        [`https://${PUBLIC}:8443/`, /port 8443 is not open/],
        ['https://user@private.site.test:8443/', /user name/, /port 8443/, /leads to an address that is neither/],
        ['https://mes.lan/', /is a local one/],
        ['https://mixed.site.test/', /the name .* leads to an address that is neither/],
        ['https://mixed-six.site.test/', /the name .* leads to an address that is neither/],
        ['https://hosts-loop.site.test/', /the name .* leads to an address that is neither/],
        ['https://never.site.test/', /leads to an address that is never called/],
        ['https://mapped.site.test/', /leads to an address that is never called/],
        ['https://own.site.test/', /leads to this device/],
      ] as const) {
        await assertRefused(strict, url, ...patterns);
      }
      for (const name of ['private', 'mapped', 'own']) {
        const { text } = await registration(strict, `https://${name}.site.test/`);
        assert.ok(![PRIVATE, 'a09:807', BOX_PUBLIC].some((address) => text.includes(address)), text);
      }
    });

    test('lets public ones be called, at 443, by each way a name is known here, and no proxy of the environment', async () => {
      for (const host of ['public.site.test', 'dual.site.test', 'hosts-public.site.test', PUBLIC]) {
        const url = `https://${host}/open-${host}`;
        const { id } = await subscribe(strict, outside, `open-${host}`, { url, dictionaries: ['open'] });
        assert.deepEqual(await ping(strict, url).then(({ success, statusCode }) => [success, statusCode]), [true, 202]);
        const change = patchUrl(strict, id, 'https://private.site.test/');
        await refused(422, 'INVALID_ARGUMENT', change);
      }
      await dictionary(strict, 'open');
      for (const host of ['public.site.test', 'dual.site.test', 'hosts-public.site.test', PUBLIC]) {
        const requests = await outside.received(2, `/open-${host}`);
        assert.deepEqual(
          requests.map(({ header }) => header['host']),
          [host, host],
        );
      }
    });

    function patchUrl(api: HubApi, id: string, url: string) {
      return api.send('PATCH', `${HOOKS}/subscriptions/${id}`, { body: { url } });
    }

    test('a test-ping reports why it failed, and shows no address', async () => {
      await outside.script([{ status: 503, body: 'busy' }], '/ping-503');
      await outside.script([{ fault: 'hang' }], '/ping-hang');
      const url = 'https://public.site.test';
      for (const [to, kind, status, message] of [
        ['https://nowhere.site.test/', 'dns', null, /the name nowhere\.site\.test cannot be resolved \(ENOTFOUND\)/],
        ['https://silent.site.test/', 'timeout', null, /1500 ms were over while/],
        ['https://abyss.site.test/', 'timeout', null, /while connecting to abyss/],
        ['https://named-otherwise.test/', 'tls', null, /is for other names/],
        [`${url}/ping-hang`, 'timeout', null, /while waiting for the answer/],
        [`${url}/ping-503`, 'http', 503, /answered 503/],
      ] as const) {
        const { success, statusCode, responseBody, elapsedMs, error } = await ping(strict, to);
        assert.deepEqual([success, statusCode, error?.kind], [false, status, kind], to);
        assert.equal(responseBody, status === 503 ? 'busy' : '');
        assert.match(error?.message ?? '', message);
        assert.ok(![PUBLIC, PRIVATE, ABYSS].some((address) => (error?.message ?? '').includes(address)));
        assert.ok(elapsedMs >= (kind === 'timeout' ? TIMEOUT_MS : 0));
      }
      const good = await ping(strict, `${url}/ping-good`);
      assert.deepEqual([good.success, good.statusCode, good.error], [true, 202, undefined]);
      const [request] = outside.requests('/ping-good');
      assert.deepEqual(
        [request?.body?.subscriptionName, request?.body?.events[0]?.eventType],
        ['test-ping', 'test.ping'],
      );
      assert.ok(!(await strict.get(`${HOOKS}/deliveries?limit=200`)).text.includes('ping-'));
    });

    test('a name that is unknown or gone may be registered; what is sent to it arrives when the name is back', async () => {
      const { id } = await subscribe(strict, outside, 'gone', {
        url: 'https://gone.site.test/gone',
        dictionaries: ['gone'],
      });
      await dictionary(strict, 'gone');
      const failed = await deliveryWhen(strict, id, ({ attempts }) => attempts >= 2);
      assert.deepEqual([failed.state, failed.lastAttempt?.cause], ['retrying', 'dns']);
      await moveName('gone.site.test', [[PUBLIC]]);
      assert.equal((await deliveryWhen(strict, id, hasEnded)).state, 'delivered');
      assert.equal(outside.requests('/gone').length, 1);
    });

    test('a name that moves inside after it was registered is not called, also on a kept connection; then it is called again', async () => {
      await moveName('moving.site.test', [[PUBLIC]]);
      const url = 'https://moving.site.test/moving';
      const { id } = await subscribe(strict, outside, 'moving', { url, dictionaries: ['moving'] });
      await dictionary(strict, 'moving');
      await deliveryWhen(strict, id, ({ state }) => state === 'delivered');
      await moveName('moving.site.test', [[PRIVATE]]);
      await until('the hub has seen it', async () => (await ping(strict, url)).error?.kind === 'ssrf');
      const before = outside.requests('/moving').length;
      await create(strict, 'moving', 'inside', {});
      const refusedOnce = await until('two attempts', async () => {
        const found = (await deliveriesOf(strict, id))[1];
        return found !== undefined && found.attempts >= 2 && found;
      });
      const { cause, message, statusCode } = refusedOnce.lastAttempt ?? {};
      assert.deepEqual([refusedOnce.state, cause, statusCode], ['retrying', 'ssrf', null]);
      assert.ok(!String(message).includes(PRIVATE), message);
      assert.equal(outside.requests('/moving').length, before);
      await moveName('moving.site.test', [[PUBLIC]]);
      const all = await settled(strict, id);
      assert.deepEqual(new Set(all.map(({ state }) => state)), new Set(['delivered']));
    });

    test('an address that has become the device’s own is not called any more', async () => {
      if (typeof site === 'string') return;
      const later = '93.184.216.36';
      const url = `https://${later}/own`;
      const { id } = await subscribe(strict, outside, 'becomes own', { url, dictionaries: ['becoming'] });
      site.addOwn(later);
      await until('the hub knows it', async () => (await patchUrl(strict, id, url)).status === 422);
      await dictionary(strict, 'becoming');
      const failed = await deliveryWhen(strict, id, ({ attempts }) => attempts >= 2);
      assert.deepEqual(failed.attemptList.map(({ cause, statusCode }) => [cause, statusCode]).slice(0, 2), [
        ['ssrf', null],
        ['ssrf', null],
      ]);
    });

    test('webhooks.allow_cidrs opens a range, on any port, and names of it; nothing beside it, and not the device itself', async () => {
      for (const host of [PRIVATE, 'intern.site.test', 'mes.lan']) {
        const url = `https://${host}:8443/in-${host}`;
        const { id } = await subscribe(open, inside, `in-${host}`, { url, dictionaries: ['changes'] });
        await create(open, 'changes', host, {});
        assert.equal((await deliveryWhen(open, id, hasEnded)).state, 'delivered');
        assert.equal(inside.requests(`/in-${host}`)[0]?.header['host'], `${host}:8443`);
      }
      await assertRefused(open, 'https://10.9.9.9/', /not in webhooks\.allow_cidrs/);
      await assertRefused(open, `https://${BOX}/`, /the device's own/);
      await assertRefused(open, `https://${BOX_PUBLIC}/`, /the device's own/);
      await assertRefused(open, 'https://half-intern.site.test/', /neither public nor in/);
      await assertRefused(open, 'https://mixed-six.site.test/', /neither public nor in/);
      await assertRefused(open, 'https://printer.local/', /local one/);
      assert.equal((await ping(open, `https://public.site.test/open`)).success, true);
    });
  });

  test('no address that may not be called was, no proxy either, and the subscribers found nothing wrong', async () => {
    assert.deepEqual([trap.connections(), boxTrap.connections()], [0, 0]);
    assert.ok(outside.requests().length > 10 && inside.requests().length >= 3);
    for (const one of [outside, inside]) assertFaultless(one);
    for (const hub of hubs) assert.equal(await hub.stop(), 0);
  });
});
