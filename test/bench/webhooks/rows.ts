/** The rows of webhooks: deliveries against a bare loop, what they cost, and what others' deliveries do to one. */

import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { measured, program } from '../outbox/child.ts';
import { type RowsHub, withHub } from '../outbox/hub.ts';
import { dataOf } from '../outbox/samples.ts';
import { io, residentOf } from '../processes.ts';
import { atLeast, inTurns, judge, type Line, median, more, type Row, rounded, shown, times } from '../table.ts';
import type { PlanningCost } from './programs/planning.ts';
import { seedDeliveries, seedSubscriptions } from './seed.ts';
import { CONCURRENCY } from './settings.ts';
import { type Subscriber, startSubscriber } from './subscriber.ts';

// Deliveries a second of a backlog to one HTTPS subscriber, against a bare got loop that posts and signs the same.

const DELIVERIES_AIM = 0.5;

const deliveries: Row = {
  name: 'deliveries',
  async run({ quick, say }) {
    const [rounds, count] = quick ? [1, 500] : [5, 5_000];
    const subscriber = await startSubscriber(count);
    const rate = (seconds: Promise<number>): Promise<number> => seconds.then((one) => count / one);
    const { own, bare } = await inTurns(
      { rounds },
      { own: () => rate(backlogSeconds(subscriber, count)), bare: () => rate(bareSeconds(subscriber, count)) },
    );
    await subscriber.close();
    say(`deliveries per second: lineside ${rounded(own)}, bare got ${rounded(bare)}`);
    return [
      {
        row: `deliveries per second of a backlog to one subscriber, ${CONCURRENCY} at a time`,
        lineside: `${Math.round(median(own))}/s`,
        against: `bare got, kept connections, signed: ${Math.round(median(bare))}/s`,
        ...atLeast(median(own.map((one, round) => one / (bare[round] ?? Number.NaN))), DELIVERIES_AIM),
      },
    ];
  },
};

async function bareSeconds(subscriber: Subscriber, count: number): Promise<number> {
  const [status] = await once(
    program('bare-deliveries', [subscriber.url, subscriber.caFile, count, CONCURRENCY]),
    'exit',
  );
  if (status !== 0) throw new Error(`the bare loop ended with ${String(status)}`);
  return subscriber.claim();
}

// What planning costs as subscriptions grow: a hundred with different filters against one that takes everything.

/** Far below the hundred times that asking each subscription would take. */
const PLANNING_AIM = 2;
/** A third of what they were while each delivery was on a page of its own. */
const CHANGE_BYTES_AIM = 80_000;
const CHANGE_CPU_AIM_MS = 4;

const planning: Row = {
  name: 'planning',
  async run({ quick, say }) {
    const [events, rounds] = quick ? [2_000, 2] : [5_000, 5];
    const cost = await measured<PlanningCost>('planning', [temporaryDirectory(), events, rounds]);
    say(JSON.stringify(cost));
    const { seconds, change } = cost;
    const one = median(seconds.one);
    const perEvent = (all: readonly number[]): string => `${((median(all) / events) * 1e6).toFixed(1)} us an event`;
    const against = `one that takes everything: ${perEvent(seconds.one)}`;
    const different = median(seconds.different) / one;
    const everything = median(seconds.everything) / one;
    return [
      {
        row: 'planning for 100 subscriptions, each with another filter, as many deliveries',
        lineside: perEvent(seconds.different),
        against,
        ratio: times(different),
        aim: `at most ${PLANNING_AIM} x`,
        verdict: judge(different <= PLANNING_AIM),
      },
      {
        row: 'planning for 100 subscriptions that take everything, a hundred times the deliveries',
        lineside: perEvent(seconds.everything),
        against,
        ratio: times(everything),
        aim: 'below 100 x',
        verdict: judge(everything < 100),
      },
      {
        row: 'bytes written to storage for a change that 200 subscriptions take, committed and planned alone',
        lineside: `${change.bytes.toFixed(0)} bytes`,
        against: '',
        ratio: '',
        aim: `at most ${CHANGE_BYTES_AIM}`,
        verdict: judge(change.bytes <= CHANGE_BYTES_AIM),
      },
      {
        row: 'CPU for the same',
        lineside: `${change.cpuMs.toFixed(1)} ms`,
        against: '',
        ratio: '',
        aim: `at most ${CHANGE_CPU_AIM_MS} ms`,
        verdict: judge(change.cpuMs <= CHANGE_CPU_AIM_MS),
      },
    ];
  },
};

// What dead subscribers, which never answer, cost a live one: its rate with them and without.

const DEAD_AIM = 0.95;

const dead: Row = {
  name: 'dead',
  whyMissed:
    'Planning is in the measured 2.5 s: the 80,000 deliveries to the silent subscribers are stored in 0.17 s of them, 2 us ' +
    'each (the row of planning for 100 subscriptions). From table to table the ratio was 0.88 to 1.13.',
  async run({ quick, say }) {
    const [rounds, count] = quick ? [1, 500] : [5, 4_000];
    const subscriber = await startSubscriber(count);
    const beside = (silent: number) => async () => count / (await backlogSeconds(subscriber, count, silent));
    const rates = await inTurns({ rounds }, { 0: beside(0), 1: beside(1), 20: beside(20) }, (silent, rate) =>
      say(`beside ${silent} dead: ${rate.toFixed(0)}/s`),
    );
    await subscriber.close();
    const found = (silent: 0 | 1 | 20): number => median(rates[silent] ?? []);
    return ([1, 20] as const).map((silent) => ({
      row: `deliveries per second of a live subscriber beside ${silent} that never answer${silent === 1 ? 's' : ''}, the same events each`,
      lineside: `${Math.round(found(silent))}/s`,
      against: `alone: ${Math.round(found(0))}/s`,
      ...atLeast(found(silent) / found(0), DEAD_AIM),
    }));
  },
};

/** Until lineside has delivered as many events; each also goes to so many subscribers that never answer. */
async function backlogSeconds(subscriber: Subscriber, count: number, silent = 0): Promise<number> {
  const { url, silentUrl, caFile } = subscriber;
  const urls = [...Array.from({ length: silent }, () => silentUrl), url];
  const seed = (dir: string): void => seedSubscriptions(dir, { events: count, urls });
  return withHub({ subscribersCa: caFile, seed }, () => subscriber.claim());
}

// Resident memory of the hub with a million deliveries that wait, while it delivers from them, against few.

/** Two runs of the same program differ by as much. */
const FLAT_MB = 10;
const READINGS = 10;
/** Of a hub that sends 1,000 a second, from its last collection to the reading. */
const COLLECTED_MS = 200;

/** Enough for a file that is checked in the background after the start, as the large one is. */
const FEW = 60_000;

interface Delivering {
  /** As it comes: V8 collects when it wants to. */
  readonly resident: number;
  /** After a collection. */
  readonly held: number;
}

const waiting: Row = {
  name: 'waiting',
  async run({ quick, say }) {
    const [rounds, many, delivered] = quick ? [1, 200_000, 500] : [3, 1_000_000, 5_000];
    const memory = (deliveries: number) => (): Promise<Delivering> => memoryDelivering(deliveries, delivered);
    const { few, many: large } = await inTurns({ rounds }, { few: memory(FEW), many: memory(many) });
    const line = (row: string, of: keyof Delivering): Line => {
      const [small, much] = [few, large].map((all) => all.map((one) => one[of])) as [number[], number[]];
      say(`${of}, MB with ${FEW} waiting: ${rounded(small)}; with ${many}: ${rounded(much)}`);
      const difference = median(much) - median(small);
      return {
        row,
        lineside: `${median(much).toFixed(1)} MB`,
        against: `from ${FEW.toLocaleString('en')}: ${median(small).toFixed(1)} MB`,
        ...more(difference, 1, 'MB', `flat (at most +${FLAT_MB} MB)`, difference <= FLAT_MB),
      };
    };
    return [
      line(`resident memory of the hub that delivers from ${many.toLocaleString('en')} waiting`, 'resident'),
      line('the same after a collection of its garbage', 'held'),
    ];
  },
};

/** Once so many are delivered, and while more are. The subscriber counts those of this hub alone. */
async function memoryDelivering(deliveries: number, delivered: number): Promise<Delivering> {
  const subscriber = await startSubscriber(delivered);
  const { caFile: subscribersCa, url } = subscriber;
  const seed = (dir: string): void => seedDeliveries(dir, { deliveries, url });
  const nodeOptions = ['--import', join(import.meta.dirname, 'programs', 'collect-on-signal.ts')];
  const found = await withHub({ subscribersCa, seed, nodeOptions }, async (hub) => {
    await subscriber.claim();
    const readings = async (waitMs: number, before = (): void => {}): Promise<number> => {
      const all: number[] = [];
      while (all.length < READINGS) {
        before();
        await sleep(waitMs);
        all.push(residentOf(hub.pid()).all);
      }
      return median(all);
    };
    const resident = await readings(1_000);
    return { resident, held: await readings(COLLECTED_MS, () => process.kill(hub.pid(), 'SIGUSR2')) };
  });
  await subscriber.close();
  return found;
}

// What the card has to bear for webhooks: bytes written for each delivery planned, sent and recorded.

/** Slow enough that each change is delivered, and that recorded, before the next. */
const APART_MS = 150;
/** The last outcomes are committed by then. */
const RECORDED_MS = 2_000;

const bytes: Row = {
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
      bytesLine('of a backlog, planning included', `${perDrained.toFixed(0)} bytes`, ''),
      bytesLine(
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
  const seed = (dir: string): void => seedSubscriptions(dir, { events, urls });
  return withHub({ subscribersCa, seed }, async (hub) => {
    await work(hub);
    await sleep(RECORDED_MS);
    return io(hub.pid()).writeBytes;
  });
}

function bytesLine(what: string, lineside: string, against: string): Line {
  return { row: `bytes written to storage for a delivery ${what}`, lineside, against, ...shown('', 'shown') };
}

/** In the order of the table. */
export const rows: readonly Row[] = [deliveries, planning, dead, waiting, bytes];
