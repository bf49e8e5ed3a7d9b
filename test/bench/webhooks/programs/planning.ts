/**
 * Seconds to plan the same events for one subscription, for a hundred that each take another dictionary (as many deliveries
 * as for the one), and for a hundred that take everything. planning.ts DIR EVENTS ROUNDS: prints PlanningSeconds.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DeliveryRows } from '../../../../src/hub/webhooks/delivery/delivery-rows.ts';
import { Planner } from '../../../../src/hub/webhooks/delivery/planner.ts';
import { RunningTime } from '../../../../src/hub/webhooks/progress.ts';
import type { SubscriptionSource } from '../../../../src/hub/webhooks/subscriptions/cache.ts';
import type { Subscription } from '../../../../src/hub/webhooks/subscriptions/subscription.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import { storeOn } from '../../outbox/programs/own-store.ts';
import { filledFile, insertEvents } from '../../outbox/seed.ts';
import { inTurns } from '../../table.ts';

const SUBSCRIPTIONS = 100;
const [dir = '', ...numbers] = process.argv.slice(2);
const [events = 0, rounds = 0] = numbers.map(Number);
const [clock, logger] = [systemClock, silentLogger];

export type PlanningSeconds = Readonly<Record<'one' | 'different' | 'everything', number[]>>;

const dictionaryOf = (n: number): string => `bench.${n % SUBSCRIPTIONS}`;

const seconds: PlanningSeconds = await inTurns(
  { rounds },
  {
    one: () => secondsFor([subscription(1, null)]),
    different: () => secondsFor(hundred((n) => [dictionaryOf(n)])),
    everything: () => secondsFor(hundred(() => null)),
  },
);
console.log(JSON.stringify(seconds));
process.exit(0);

function hundred(dictionaries: (n: number) => readonly string[] | null): Subscription[] {
  return Array.from({ length: SUBSCRIPTIONS }, (_, n) => subscription(n + 1, dictionaries(n)));
}

async function secondsFor(subscriptions: readonly Subscription[]): Promise<number> {
  const folder = join(dir, 'planning');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const connection = filledFile(folder, (file) =>
    insertEvents(file, events, events, (n) => ({ dictionary: dictionaryOf(n) })),
  );
  const store = storeOn(connection, folder);
  const running = new RunningTime(
    { runMs: 0, bootId: '', bootMs: 0 },
    { id: 'bench', monoMs: () => performance.now() },
  );
  const randomHex = (): string => randomBytes(8).toString('hex');
  const rows = new DeliveryRows(connection);
  const cache = cacheOf(subscriptions);
  const planner = new Planner({ store, cache, rows, running, clock, logger, randomHex });
  planner.start();
  const begin = performance.now();
  await planner.caughtUp();
  const found = (performance.now() - begin) / 1_000;
  await planner.stop();
  await store.close();
  return found;
}

function subscription(id: number, dictionaries: readonly string[] | null): Subscription {
  return {
    id,
    name: `bench ${id}`,
    url: 'https://subscriber.test/',
    consumer: 'local',
    active: true,
    version: 1,
    afterEvent: 0,
    scopes: ['PUBLIC'],
    dictionaries,
    actions: null,
    categories: null,
  };
}

function cacheOf(all: readonly Subscription[]): SubscriptionSource {
  return {
    all: () => all,
    byId: (id) => all.find((one) => one.id === id),
    secrets: () => ({ unreadable: 'nothing is sent here' }),
    blocked: () => '',
    openScopes: ({ scopes }) => scopes,
    onChanged: () => undefined,
  };
}
