/** Deliveries a second of a backlog to one HTTPS subscriber, against a bare got loop that posts and signs the same. */
import { program } from '../outbox/child.ts';
import { startHub } from '../outbox/hub.ts';
import { type Context, judge, type Line, median, type Row, times } from '../table.ts';
import { seedSubscriptions } from './seed.ts';
import { CONCURRENCY } from './settings.ts';
import { finished, type Subscriber, startSubscriber } from './subscriber.ts';

const AIM = 0.5;

export const deliveries: Row = {
  name: 'deliveries',
  async run(context) {
    const [rounds, count] = context.quick ? [1, 500] : [5, 5_000];
    const subscriber = await startSubscriber(count);
    const own: number[] = [];
    const bare: number[] = [];
    for (let round = 0; round < rounds; round++) {
      own.push(count / (await ownSeconds(subscriber, count)));
      bare.push(count / (await bareSeconds(subscriber, count)));
    }
    await subscriber.close();
    return [line(own, bare, context)];
  },
};

async function ownSeconds(subscriber: Subscriber, count: number): Promise<number> {
  const seed = (dir: string): void => seedSubscriptions(dir, { events: count, urls: [subscriber.url] });
  const hub = await startHub({ subscribersCa: subscriber.caFile, seed });
  const seconds = await subscriber.claim();
  await hub.close();
  return seconds;
}

async function bareSeconds(subscriber: Subscriber, count: number): Promise<number> {
  const claim = subscriber.claim();
  await finished(program('bare-deliveries', [subscriber.url, subscriber.caFile, count, CONCURRENCY]));
  return claim;
}

function line(own: readonly number[], bare: readonly number[], { say }: Context): Line {
  const show = (rates: readonly number[]): string => rates.map((rate) => Math.round(rate)).join(' ');
  say(`deliveries per second: lineside ${show(own)}, bare got ${show(bare)}`);
  const ratio = median(own.map((rate, round) => rate / (bare[round] ?? Number.NaN)));
  return {
    row: `deliveries per second of a backlog to one subscriber, ${CONCURRENCY} at a time`,
    lineside: `${Math.round(median(own))}/s`,
    against: `bare got, kept connections, signed: ${Math.round(median(bare))}/s`,
    ratio: times(ratio),
    aim: `at least ${AIM} x`,
    verdict: judge(ratio >= AIM),
  };
}
