/** Deliveries a second of a backlog to one HTTPS subscriber, against a bare got loop that posts and signs the same. */
import { program } from '../outbox/child.ts';
import { startHub } from '../outbox/hub.ts';
import { atLeast, type Context, inTurns, type Line, median, type Row, rounded } from '../table.ts';
import { seedSubscriptions } from './seed.ts';
import { CONCURRENCY } from './settings.ts';
import { finished, type Subscriber, startSubscriber } from './subscriber.ts';

const AIM = 0.5;

export const deliveries: Row = {
  name: 'deliveries',
  async run(context) {
    const [rounds, count] = context.quick ? [1, 500] : [5, 5_000];
    const subscriber = await startSubscriber(count);
    const { own, bare } = await inTurns(
      { rounds },
      { own: () => ownSeconds(subscriber, count), bare: () => bareSeconds(subscriber, count) },
    );
    await subscriber.close();
    const rates = (seconds: readonly number[]): number[] => seconds.map((one) => count / one);
    return [line(rates(own), rates(bare), context)];
  },
};

async function ownSeconds(subscriber: Subscriber, count: number): Promise<number> {
  const seed = (dir: string): void => seedSubscriptions(dir, { events: count, urls: [subscriber.url] });
  const hub = await startHub({ subscribersCa: subscriber.caFile, seed });
  const seconds = await subscriber.claim();
  await hub.stop();
  return seconds;
}

async function bareSeconds(subscriber: Subscriber, count: number): Promise<number> {
  const claim = subscriber.claim();
  await finished(program('bare-deliveries', [subscriber.url, subscriber.caFile, count, CONCURRENCY]));
  return claim;
}

function line(own: readonly number[], bare: readonly number[], { say }: Context): Line {
  say(`deliveries per second: lineside ${rounded(own)}, bare got ${rounded(bare)}`);
  const ratio = median(own.map((rate, round) => rate / (bare[round] ?? Number.NaN)));
  return {
    row: `deliveries per second of a backlog to one subscriber, ${CONCURRENCY} at a time`,
    lineside: `${Math.round(median(own))}/s`,
    against: `bare got, kept connections, signed: ${Math.round(median(bare))}/s`,
    ...atLeast(ratio, AIM),
  };
}
