import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { FakeClock, settled } from '../../../shared/base/fake-clock.fixture.ts';
import {
  type Found,
  keepMs,
  maxKeptNames,
  maxLookups,
  maxSlowNames,
  maxWaitingNames,
  NameUnresolved,
  Resolver,
  slowMs,
} from './resolver.ts';

const answer: readonly Found[] = [{ address: '93.184.216.34', family: 4 }];
const forever = new AbortController().signal;

/** Lookups that end when the test says so. */
function desk() {
  const clock = new FakeClock();
  const open = new Map<string, PromiseWithResolvers<readonly Found[]>>();
  const asked: string[] = [];
  let most = 0;
  const resolver = new Resolver(clock, (hostname) => {
    const pending = Promise.withResolvers<readonly Found[]>();
    asked.push(hostname);
    assert.ok(!open.has(hostname), `${hostname} is looked up twice at a time`);
    open.set(hostname, pending);
    most = Math.max(most, open.size);
    return pending.promise;
  });
  const takeLookup = (hostname: string): PromiseWithResolvers<readonly Found[]> => {
    const pending = open.get(hostname);
    assert.ok(pending !== undefined, `${hostname} is not being looked up`);
    open.delete(hostname);
    return pending;
  };
  return {
    clock,
    resolver,
    asked,
    most: () => most,
    running: () => [...open.keys()],
    end: async (hostname: string, found = answer) => {
      takeLookup(hostname).resolve(found);
      await settled();
    },
    fail: async (hostname: string, code: string) => {
      takeLookup(hostname).reject(Object.assign(new Error('no'), { code }));
      await settled();
    },
  };
}

describe('the resolver', () => {
  it('looks up three names at a time, the others in the order they came', async () => {
    const { resolver, running, end, most, asked } = desk();
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const found = names.map((name) => resolver.resolve(name, forever));
    assert.deepEqual(running(), ['a', 'b', 'c']);
    await end('b');
    assert.deepEqual(running(), ['a', 'c', 'd']);
    for (const name of ['a', 'c', 'd', 'e', 'f']) await end(name);
    assert.deepEqual(
      await Promise.all(found),
      names.map(() => answer),
    );
    assert.equal(most(), maxLookups);
    assert.deepEqual(asked, names);
  });

  describe('gives names whose last lookup took more than a second two slots at most,', () => {
    /** Their name server is dead. */
    async function slow(names: readonly string[], { resolver, clock, fail, running }: ReturnType<typeof desk>) {
      for (const name of names) {
        const failed = assert.rejects(resolver.resolve(name, forever), NameUnresolved);
        clock.advance(slowMs + 1);
        assert.deepEqual(running(), [name]);
        await fail(name, 'EAI_AGAIN');
        await failed;
      }
    }
    const ask = ({ resolver }: ReturnType<typeof desk>, ...names: readonly string[]) =>
      Promise.all(names.map((name) => resolver.resolve(name, forever)));

    it('and the third to one that waits behind them', async () => {
      const room = desk();
      await slow(['dead1', 'dead2', 'dead3'], room);
      const found = ask(room, 'dead1', 'dead2', 'dead3', 'well');
      assert.deepEqual(room.running(), ['dead1', 'dead2', 'well']);
      for (const name of ['dead1', 'well', 'dead2', 'dead3']) await room.end(name);
      assert.equal((await found).length, 4);
    });

    it('until they answer in time again', async () => {
      const room = desk();
      await slow(['dead1', 'dead2', 'dead3'], room);
      const first = ask(room, 'dead1');
      room.clock.advance(slowMs);
      await room.end('dead1');
      await first;
      room.clock.advance(keepMs);
      const found = ask(room, 'dead1', 'dead2', 'dead3');
      assert.deepEqual(room.running(), ['dead1', 'dead2', 'dead3']);
      for (const name of ['dead1', 'dead2', 'dead3']) await room.end(name);
      await found;
    });

    it('and remembers the newest 256 of them', async () => {
      const room = desk();
      const names = Array.from({ length: maxSlowNames + 1 }, (_, n) => `dead${n}`);
      await slow(names, room);
      const found = ask(room, 'dead1', 'dead2', 'dead0');
      assert.deepEqual(room.running(), ['dead1', 'dead2', 'dead0']);
      for (const name of ['dead0', 'dead1', 'dead2']) await room.end(name);
      await found;
    });
  });

  it('asks once for all who want the same name at a time, running or waiting', async () => {
    const { resolver, end, asked } = desk();
    const all = ['a', 'a', 'b', 'c', 'd', 'd'].map((name) => resolver.resolve(name, forever));
    for (const name of ['a', 'b', 'c', 'd']) await end(name);
    await Promise.all(all);
    assert.deepEqual(asked, ['a', 'b', 'c', 'd']);
  });

  it('keeps an answer for 5 s of monotonic time from when it came', async () => {
    const { resolver, end, asked, clock } = desk();
    const first = resolver.resolve('a', forever);
    clock.advance(60_000);
    await end('a');
    await first;
    clock.advance(keepMs - 1);
    clock.stepWall(3_600_000);
    assert.deepEqual(await resolver.resolve('a', forever), answer);
    assert.deepEqual(asked, ['a']);
    clock.advance(1);
    const again = resolver.resolve('a', forever);
    assert.deepEqual(asked, ['a', 'a']);
    const other = [{ address: '93.184.216.99', family: 4 }];
    await end('a', other);
    assert.deepEqual(await again, other);
  });

  it('asks again for a name that was forgotten', async () => {
    const { resolver, end, asked } = desk();
    const first = resolver.resolve('a', forever);
    await end('a');
    await first;
    resolver.forget('b');
    await resolver.resolve('a', forever);
    resolver.forget('a');
    const second = resolver.resolve('a', forever);
    await end('a');
    await second;
    assert.deepEqual(asked, ['a', 'a']);
  });

  it('keeps no failure, and says which it was', async () => {
    const { resolver, fail, end } = desk();
    for (const code of ['ENOTFOUND', 'EAI_AGAIN', '']) {
      const failed = assert.rejects(resolver.resolve('a', forever), { code: code || 'EAI_FAIL' });
      await Promise.all([failed, fail('a', code)]);
    }
    const later = resolver.resolve('a', forever);
    await end('a');
    assert.deepEqual(await later, answer);
  });

  it('takes a name without addresses for one that does not resolve', async () => {
    const { resolver, end } = desk();
    const asked = resolver.resolve('a', forever);
    await Promise.all([assert.rejects(asked, NameUnresolved), end('a', [])]);
  });

  it('frees the slot of a lookup that throws before it begins', async () => {
    const resolver = new Resolver(new FakeClock(), () => {
      throw new TypeError('no');
    });
    for (let n = 0; n <= maxLookups; n += 1) await assert.rejects(resolver.resolve(`n${n}`, forever), NameUnresolved);
  });

  it('lets go of a caller at once when its signal fires, with the reason of the signal', async () => {
    const { resolver, running, end } = desk();
    const caller = new AbortController();
    const given = resolver.resolve('a', caller.signal);
    const stays = resolver.resolve('a', forever);
    const reason = new Error('enough');
    caller.abort(reason);
    await assert.rejects(given, reason);
    assert.deepEqual(running(), ['a']);
    await end('a');
    assert.deepEqual(await stays, answer);
    await assert.rejects(resolver.resolve('a', caller.signal), reason);
  });

  it('leaves nothing on the signal of a caller that was served', async () => {
    const { resolver, end } = desk();
    const caller = new AbortController();
    const asked = resolver.resolve('a', caller.signal);
    assert.equal(getEventListeners(caller.signal, 'abort').length, 1);
    await end('a');
    await asked;
    assert.equal(getEventListeners(caller.signal, 'abort').length, 0);
  });

  it('keeps the slot of a lookup that outlives its callers until it really ends', async () => {
    const { resolver, running, end, fail, asked } = desk();
    const caller = new AbortController();
    const gone = ['a', 'b', 'c'].map((name) => resolver.resolve(name, caller.signal));
    caller.abort();
    for (const one of gone) await assert.rejects(one);
    const next = resolver.resolve('d', forever);
    await settled();
    assert.deepEqual(running(), ['a', 'b', 'c']);
    await fail('a', 'EAI_AGAIN');
    assert.deepEqual(running(), ['b', 'c', 'd']);
    await end('d');
    assert.deepEqual(await next, answer);
    // What came too late for its caller serves the next one.
    await end('b');
    assert.deepEqual(await resolver.resolve('b', forever), answer);
    assert.deepEqual(asked, ['a', 'b', 'c', 'd']);
  });

  it('never begins a lookup without a waiting caller', async () => {
    const { resolver, running, end } = desk();
    const caller = new AbortController();
    const held = ['a', 'b', 'c'].map((name) => resolver.resolve(name, forever));
    const given = resolver.resolve('d', caller.signal);
    const shared = Promise.allSettled([resolver.resolve('e', caller.signal), resolver.resolve('e', forever)]);
    caller.abort();
    await assert.rejects(given);
    await end('a');
    assert.deepEqual(running(), ['b', 'c', 'e']);
    for (const name of ['b', 'c', 'e']) await end(name);
    await Promise.all(held);
    assert.deepEqual(
      (await shared).map(({ status }) => status),
      ['rejected', 'fulfilled'],
    );
  });

  it('lets at most 64 names wait, and refuses the next for now', async () => {
    const { resolver, end, running } = desk();
    const names = Array.from({ length: maxLookups + maxWaitingNames }, (_, n) => `n${n}`);
    const all = names.map((name) => resolver.resolve(name, forever));
    await assert.rejects(resolver.resolve('more', forever), { name: 'NameUnresolved', code: 'EAI_AGAIN' });
    while (running().length > 0) await end(running()[0] ?? '');
    assert.equal((await Promise.all(all)).length, names.length);
  });

  it('keeps at most 256 answers, the newest', async () => {
    const asked: string[] = [];
    const resolver = new Resolver(new FakeClock(), async (hostname) => {
      asked.push(hostname);
      return answer;
    });
    for (let n = 0; n <= maxKeptNames; n += 1) await resolver.resolve(`n${n}`, forever);
    await resolver.resolve('n1', forever);
    assert.equal(asked.length, maxKeptNames + 1);
    await resolver.resolve('n0', forever);
    assert.equal(asked.length, maxKeptNames + 2);
  });
});
