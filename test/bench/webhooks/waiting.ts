/** Resident memory of the hub with a million deliveries that wait, while it delivers from them, against an empty file. */
import { type Hub, startHub } from '../outbox/hub.ts';
import { residentMegabytes, sleep } from '../processes.ts';
import { judge, type Line, median, type Row } from '../table.ts';
import { seedDeliveries, seedSubscriptions } from './seed.ts';
import { startSubscriber } from './subscriber.ts';

/** Two runs of the same program differ by as much. */
const FLAT_MB = 10;
const SETTLE_MS = 10_000;

export const waiting: Row = {
  name: 'waiting',
  async run({ quick, say }) {
    const [rounds, rows, delivered] = quick ? [1, 100_000, 500] : [3, 1_000_000, 5_000];
    const subscriber = await startSubscriber(delivered);
    const { caFile: subscribersCa, url } = subscriber;
    const empty: number[] = [];
    const full: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const few = (dir: string): void => seedSubscriptions(dir, { events: delivered, urls: [url] });
      const many = (dir: string): void => seedDeliveries(dir, { deliveries: rows, url });
      // Both deliver the same number before they are looked at.
      for (const [seed, found] of [
        [few, empty],
        [many, full],
      ] as const) {
        const hub = await startHub({ subscribersCa, seed });
        await subscriber.taken();
        found.push(await after(hub, found === full));
      }
    }
    await subscriber.close();
    say(`MB with few: ${empty.map(Math.round).join(' ')}; with ${rows} more: ${full.map(Math.round).join(' ')}`);
    const more = median(full) - median(empty);
    const line: Line = {
      row: `resident memory of the hub with ${rows.toLocaleString('en')} deliveries waiting, ${delivered.toLocaleString('en')} delivered`,
      lineside: `${median(full).toFixed(1)} MB`,
      against: `no more waiting than those: ${median(empty).toFixed(1)} MB`,
      ratio: `${more >= 0 ? '+' : ''}${more.toFixed(1)} MB`,
      aim: `flat (at most +${FLAT_MB} MB)`,
      verdict: judge(more <= FLAT_MB),
    };
    return [line];
  },
};

/** The full one is looked at while it goes on delivering. */
async function after(hub: Hub, busy: boolean): Promise<number> {
  if (!busy) await sleep(SETTLE_MS);
  const resident = residentMegabytes(hub.pid);
  await hub.close();
  return resident;
}
