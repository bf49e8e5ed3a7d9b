/** What dead subscribers, which never answer, cost a live one: its rate with them and without. */
import { startHub } from '../outbox/hub.ts';
import { atLeast, type Context, inTurns, type Line, median, type Row, rounded } from '../table.ts';
import { seedSubscriptions } from './seed.ts';
import { type Subscriber, startSubscriber } from './subscriber.ts';

/** Runs of the same differ by as much. */
const AIM = 0.9;

export const dead: Row = {
  name: 'dead',
  async run(context) {
    const [rounds, count] = context.quick ? [1, 500] : [5, 4_000];
    const subscriber = await startSubscriber(count);
    const beside = (silent: number) => async () => count / (await seconds(subscriber, count, silent));
    const rates = await inTurns({ rounds }, { 0: beside(0), 1: beside(1), 20: beside(20) });
    await subscriber.close();
    return [1, 20].map((silent) => line(silent, rates, context));
  },
};

async function seconds(subscriber: Subscriber, count: number, silent: number): Promise<number> {
  const { url, silentUrl, caFile } = subscriber;
  const urls = [...Array.from({ length: silent }, () => silentUrl), url];
  const hub = await startHub({ subscribersCa: caFile, seed: (dir) => seedSubscriptions(dir, { events: count, urls }) });
  const found = await subscriber.claim();
  await hub.stop();
  return found;
}

function line(silent: number, rates: Readonly<Record<number, readonly number[]>>, { say }: Context): Line {
  const [alone = [], beside = []] = [rates[0], rates[silent]];
  say(`beside ${silent} dead: ${rounded(beside)}; alone: ${rounded(alone)}`);
  return {
    row: `deliveries per second of a live subscriber beside ${silent} that never answer${silent === 1 ? 's' : ''}, the same events each`,
    lineside: `${Math.round(median(beside))}/s`,
    against: `alone: ${Math.round(median(alone))}/s`,
    ...atLeast(median(beside) / median(alone), AIM),
  };
}
