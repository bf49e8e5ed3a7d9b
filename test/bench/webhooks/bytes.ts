/** What the card has to bear for webhooks: bytes written for each delivery planned, sent and recorded. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type RowsHub, startHub } from '../outbox/hub.ts';
import { dataOf } from '../outbox/samples.ts';
import { io } from '../processes.ts';
import { type Line, type Row, shown } from '../table.ts';
import { seedSubscriptions } from './seed.ts';
import { type Subscriber, startSubscriber } from './subscriber.ts';

/** Slow enough that each change is delivered, and that recorded, before the next. */
const APART_MS = 150;
/** The last outcomes are committed by then. */
const SETTLE_MS = 2_000;

export const bytes: Row = {
  name: 'bytes',
  async run({ quick }) {
    const [drained, single] = quick ? [500, 50] : [5_000, 300];
    const backlog = await startSubscriber(drained);
    const perDrained = (await written(backlog, drained, () => backlog.claim().then(() => undefined))) / drained;
    await backlog.close();
    const subscriber = await startSubscriber(single);
    const apart = async (hub: RowsHub): Promise<void> => {
      await hub.createDictionary();
      for (let n = 0; n < single; n++) {
        await hub.create(`tool-${n}`, dataOf(n));
        await sleep(APART_MS);
      }
    };
    const alone = await written(subscriber, 0, apart, []);
    const delivered = await written(subscriber, 0, apart);
    await subscriber.close();
    return [
      line('of a backlog, planning included', `${perDrained.toFixed(0)} bytes`, ''),
      line(
        'of changes that come one by one',
        `${((delivered - alone) / single).toFixed(0)} bytes`,
        `the change itself, without a subscription: ${(alone / single).toFixed(0)} bytes`,
      ),
    ];
  },
};

async function written(
  { url, caFile: subscribersCa }: Subscriber,
  events: number,
  work: (hub: RowsHub) => Promise<void>,
  urls: readonly string[] = [url],
): Promise<number> {
  const hub = await startHub({ subscribersCa, seed: (dir) => seedSubscriptions(dir, { events, urls }) });
  await work(hub);
  await sleep(SETTLE_MS);
  const { writeBytes } = io(hub.pid());
  await hub.stop();
  return writeBytes;
}

function line(what: string, lineside: string, against: string): Line {
  return { row: `bytes written to storage for a delivery ${what}`, lineside, against, ...shown('', 'shown') };
}
