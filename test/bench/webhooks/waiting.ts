/** Resident memory of the hub with a million deliveries that wait, while it delivers from them, against few. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startHub } from '../outbox/hub.ts';
import { residentOf } from '../processes.ts';
import { inTurns, median, more, type Row, rounded } from '../table.ts';
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
      const found = residentOf(hub.pid()).all;
      await hub.stop();
      return found;
    };
    const found = await inTurns({ rounds }, { few: () => resident(FEW), many: () => resident(many) });
    await subscriber.close();
    say(`MB with ${FEW} waiting: ${rounded(found.few)}; with ${many}: ${rounded(found.many)}`);
    const difference = median(found.many) - median(found.few);
    return [
      {
        row: `resident memory of the hub that delivers from ${many.toLocaleString('en')} waiting`,
        lineside: `${median(found.many).toFixed(1)} MB`,
        against: `from ${FEW.toLocaleString('en')}: ${median(found.few).toFixed(1)} MB`,
        ...more(difference, 1, 'MB', `flat (at most +${FLAT_MB} MB)`, difference <= FLAT_MB),
      },
    ];
  },
};
