/**
 * The serial log on a link that is slow or paid by the byte: what it may take is counted at the interface of the box.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { openGate } from '../gate.ts';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import type { Toml } from './daemon.ts';
import { type Both, startBoth } from './hub.ts';
import { DELIVERED_MS } from './hub-support.ts';
import { makeIsland } from './island.ts';
import { pythonMissing } from './python.ts';
import { carried, shape } from './slow-link.ts';
import { config, figure, shipped, writeEntries } from './upstream-support.ts';

const island = makeIsland();
const skip =
  brokerMissing || pythonMissing('confluent_kafka, google.protobuf') || (typeof island === 'string' ? island : false);

describe('a link that is slow or paid by the byte', { skip }, () => {
  if (typeof island === 'string') return;
  let broker: TestBroker;
  let bootstrap = '';
  before(async () => {
    island.plug();
    broker = await startBroker(({ plain }) => {
      bootstrap = `${island.mainland}:${plain}`;
      void openGate(() => plain, island.mainland, plain);
      return { 'advertised.listeners': `PLAIN://${bootstrap}` };
    });
  });

  const start = async (topic: string, upstream: Toml): Promise<Both> => {
    const from = config({ ...broker, plain: bootstrap }, topic, upstream);
    return startBoth({ wrapper: island.wrapper, config: from });
  };

  test('the cap holds at the interface, from the first batch on', async (t) => {
    const kbitPerS = 256;
    const both = await start('cap.log', { max_kbit_per_s: kbitPerS, compression: 'none' });
    await writeEntries(both.client, 1_000, 1_000);
    await until('the first is sent', async () => (await figure(both, 'position')) > 0, DELIVERED_MS);
    const fromMs = performance.now();
    const from = carried(island);
    await until('some are sent', async () => (await figure(both, 'position')) >= 500, DELIVERED_MS);
    const bytes = carried(island) - from;
    const seconds = (performance.now() - fromMs) / 1_000;
    // A second of it may have been saved up.
    const allowed = ((kbitPerS * 1_000) / 8) * (seconds + 1);
    t.diagnostic(`${bytes} bytes within ${seconds.toFixed(1)} s, ${(bytes / allowed).toFixed(2)} of the cap`);
    assert.ok(bytes <= 1.1 * allowed, `${bytes} bytes within ${seconds} s`);
    assert.ok(bytes > 300_000, 'it was sent over this interface');
    assert.equal(await both.stop(), 0);
  });

  test('the budget holds at the interface, also when the hub is killed at its end', async (t) => {
    const budget = 600_000;
    const from = carried(island);
    const both = await start('budget.log', { max_bytes_per_day: budget });
    await writeEntries(both.client, 1_500, 1_000);
    const isUsedUp = async (): Promise<boolean> => (await figure(both, 'state{state="waiting_budget"}')) === 1;
    await until('it is used up', isUsedUp, DELIVERED_MS);
    const bytes = carried(island) - from;
    const sent = await figure(both, 'position');
    t.diagnostic(`${bytes} bytes, ${await figure(both, 'budget_used_bytes')} charged, ${sent} entries`);
    // The connection of the change events included.
    assert.ok(bytes <= budget, `${bytes} bytes`);
    assert.ok(bytes > budget / 2 && sent > 200, 'it was made use of');
    assert.equal(both.logLines.filter((line) => line.includes('data budget of 24 h is used up')).length, 1);
    await both.kill();
    await until('the next hub waits too', isUsedUp, DELIVERED_MS);
    const after = carried(island) - from;
    t.diagnostic(`${after - bytes} bytes for the next hub's connection for change events`);
    assert.ok(after - bytes < 50_000, `${after - bytes} bytes more`);
    assert.ok((await figure(both, 'position')) <= sent);
    assert.equal(await both.stop(), 0);
  });

  test('an entry that takes the link longer than any other message may take is sent', async (t) => {
    shape(island, 128);
    const topic = 'large.log';
    const from = config({ ...broker, plain: bootstrap }, topic, { compression: 'none' });
    const kafka = { ...(from['kafka'] as Toml), message_timeout_ms: 5_000 };
    const both = await startBoth({ wrapper: island.wrapper, config: { ...from, kafka } });
    // 20 s of the link: longer than librdkafka allows a request by default, too.
    await writeEntries(both.client, 1, 320_000);
    const fromMs = performance.now();
    await shipped(both);
    t.diagnostic(`sent after ${((performance.now() - fromMs) / 1_000).toFixed(1)} s`);
    assert.equal(await figure(both, 'repeated_batches_total'), 0);
    assert.equal(await both.stop(), 0);
  });
});
