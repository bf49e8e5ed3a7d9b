/** Resident memory of the hub with a million deliveries that wait, while it delivers from them, against few. */
import { startHub } from '../outbox/hub.ts';
import { residentMegabytes, sleep } from '../processes.ts';
import { judge, type Line, median, type Row } from '../table.ts';
import { seedDeliveries } from './seed.ts';
import { startSubscriber } from './subscriber.ts';

/** Two runs of the same program differ by as much. */
const FLAT_MB = 10;
const SETTLE_MS = 10_000;

/** Enough for a file that is checked in the background after the start, as the large one is. */
const FEW = 60_000;

export const waiting: Row = {
  name: 'waiting',
  async run({ quick, say }) {
    const [rounds, many, delivered] = quick ? [1, 200_000, 500] : [3, 1_000_000, 5_000];
    const subscriber = await startSubscriber(delivered);
    const resident = async (deliveries: number): Promise<number> => {
      const { caFile: subscribersCa, url } = subscriber;
      const hub = await startHub({ subscribersCa, seed: (dir) => seedDeliveries(dir, { deliveries, url }) });
      await subscriber.claim();
      await sleep(SETTLE_MS);
      const found = residentMegabytes(hub.pid);
      await hub.close();
      return found;
    };
    const found: Readonly<Record<'few' | 'many', number[]>> = { few: [], many: [] };
    for (let round = 0; round < rounds; round++) {
      found.few.push(await resident(FEW));
      found.many.push(await resident(many));
    }
    await subscriber.close();
    const show = (values: readonly number[]): string => values.map((value) => Math.round(value)).join(' ');
    say(`MB with ${FEW} waiting: ${show(found.few)}; with ${many}: ${show(found.many)}`);
    const more = median(found.many) - median(found.few);
    const line: Line = {
      row: `resident memory of the hub that delivers from ${many.toLocaleString('en')} waiting`,
      lineside: `${median(found.many).toFixed(1)} MB`,
      against: `from ${FEW.toLocaleString('en')}: ${median(found.few).toFixed(1)} MB`,
      ratio: `${more >= 0 ? '+' : ''}${more.toFixed(1)} MB`,
      aim: `flat (at most +${FLAT_MB} MB)`,
      verdict: judge(more <= FLAT_MB),
    };
    return [line];
  },
};
