/** What dead subscribers, which never answer, cost a live one: its rate with them and without. */
import { startHub } from '../outbox/hub.ts';
import { type Context, judge, type Line, median, type Row, times } from '../table.ts';
import { seedSubscriptions } from './seed.ts';
import { type Subscriber, startSubscriber } from './subscriber.ts';

/** Runs of the same differ by as much. */
const AIM = 0.9;

export const dead: Row = {
  name: 'dead',
  async run(context) {
    const [rounds, count] = context.quick ? [1, 500] : [5, 4_000];
    const subscriber = await startSubscriber(count);
    const rates: Record<number, number[]> = { 0: [], 1: [], 20: [] };
    for (let round = 0; round < rounds; round++)
      for (const [silent, found] of Object.entries(rates))
        found.push(count / (await seconds(subscriber, count, Number(silent))));
    await subscriber.close();
    return [1, 20].map((silent) => line(silent, rates, context));
  },
};

async function seconds(subscriber: Subscriber, count: number, silent: number): Promise<number> {
  const { url, silentUrl, caFile } = subscriber;
  const urls = [...Array.from({ length: silent }, () => silentUrl), url];
  const hub = await startHub({ subscribersCa: caFile, seed: (dir) => seedSubscriptions(dir, { events: count, urls }) });
  const found = await subscriber.claim();
  await hub.close();
  return found;
}

function line(silent: number, rates: Readonly<Record<number, readonly number[]>>, { say }: Context): Line {
  const [alone = [], beside = []] = [rates[0], rates[silent]];
  const show = (values: readonly number[]): string => values.map((rate) => Math.round(rate)).join(' ');
  say(`beside ${silent} dead: ${show(beside)}; alone: ${show(alone)}`);
  const ratio = median(beside) / median(alone);
  return {
    row: `deliveries per second of a live subscriber beside ${silent} that never answer${silent === 1 ? 's' : ''}, the same events each`,
    lineside: `${Math.round(median(beside))}/s`,
    against: `alone: ${Math.round(median(alone))}/s`,
    ratio: times(ratio),
    aim: `at least ${AIM} x`,
    verdict: judge(ratio >= AIM),
  };
}
