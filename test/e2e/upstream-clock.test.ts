/** A box that sends its log before its clock is set: once it is, the central side is told by how much the times are off (libfaketime). */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import { temporaryDirectory } from './daemon.ts';
import { fakeTime, withoutFaketime } from './faketime.ts';
import { RX } from './faults.ts';
import { type Both, startBoth } from './hub.ts';
import { DELIVERED_MS } from './hub-support.ts';
import { readUpstream, upstreamConsumerMissing } from './upstream-reader.ts';
import { config, DEVICE, shipped } from './upstream-support.ts';

const skip = brokerMissing || upstreamConsumerMissing() || withoutFaketime;
const { ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET } = lineside.v1.EntryClock;
/** Between two clocks of two processes, on a machine that does much else; far below the years that the clock is off. */
const TOLERANCE_MS = 5_000;

describe('the times of a log that was sent before the clock was set', { skip }, () => {
  let broker: TestBroker;
  before(async () => {
    broker = await startBroker();
  });

  test('are corrected at the central side once it is, also where the hub was killed in between', async () => {
    const topic = 'clock.log';
    const dir = temporaryDirectory();
    const timesync = join(dir, 'timesync');
    mkdirSync(timesync);
    const { env, set: setClock } = fakeTime(dir, '-8y');
    const device = { id: DEVICE, inventory: false, time_sync_file: join(timesync, 'synchronized') };
    const both: Both = await startBoth({
      dir,
      config: config(broker, topic, {}, { device }),
      env,
    });
    const logged = new Map<string, number>();
    const note = async (text: string): Promise<void> => {
      logged.set(text, Date.now());
      await both.client.serial.logRaw({ dir: RX, note: text });
    };
    for (let n = 0; n < 20; n++) await note(`before ${n}`);
    await shipped(both);
    await both.kill();
    for (let n = 20; n < 30; n++) await note(`before ${n}`);
    await shipped(both);
    setClock('+0');
    writeFileSync(join(timesync, 'synchronized'), '');
    const batches = await until(
      'the corrections',
      async () => {
        const all = await readUpstream(broker.plain, topic, DEVICE);
        return all.some(({ corrections }) => corrections.length > 0) && all;
      },
      DELIVERED_MS,
    );
    const corrections = batches.flatMap((batch) => batch.corrections);
    const entries = new Map(batches.flatMap((batch) => batch.entries).map((entry) => [entry.note, entry]));
    assert.equal(entries.size, 30);
    for (const [text, at] of logged) {
      const entry = entries.get(text);
      assert.equal(entry?.clock, ENTRY_CLOCK_NOT_SET);
      assert.ok(Math.abs((entry?.timestampMs ?? 0) - at) > 86_400_000, 'it was sent with the wrong time');
      const told = corrections.filter(
        ({ firstId, lastId }) => firstId <= (entry?.id ?? 0) && (entry?.id ?? 0) <= lastId,
      );
      assert.equal(told.length, 1, text);
      const right = (entry?.timestampMs ?? 0) + (told[0]?.correctionMs ?? 0);
      assert.ok(Math.abs(right - at) < TOLERANCE_MS, `${text} is off by ${right - at} ms`);
    }
    await note('after');
    await shipped(both);
    const later = (await readUpstream(broker.plain, topic, DEVICE)).slice(batches.length);
    assert.deepEqual(
      later.map((one) => [one.entries.map(({ note: text, clock }) => [text, clock]), one.corrections]),
      [[[['after', ENTRY_CLOCK_KNOWN]], []]],
    );
    assert.equal(await both.stop(), 0);
  });
});
