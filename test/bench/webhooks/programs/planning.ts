/**
 * Seconds to plan the same events for one subscription, for a hundred that each take another dictionary (as many deliveries
 * as for the one), and for a hundred that take everything; and what a change costs that all the subscriptions take that there
 * may be. planning.ts DIR EVENTS ROUNDS: prints PlanningCost.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { emitEvent } from '../../../../src/hub/outbox/event.fixture.ts';
import { DeliveryRows } from '../../../../src/hub/webhooks/delivery/delivery-rows.ts';
import { FakeCache } from '../../../../src/hub/webhooks/delivery/planner.fixture.ts';
import { Planner } from '../../../../src/hub/webhooks/delivery/planner.ts';
import { RunningTime } from '../../../../src/hub/webhooks/progress.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import { storeOn } from '../../outbox/programs/own-store.ts';
import { dataOf, eventOf, keyOf } from '../../outbox/samples.ts';
import { filledFile, insertEvents } from '../../outbox/seed.ts';
import { io } from '../../processes.ts';
import { inTurns } from '../../table.ts';

const SUBSCRIPTIONS = 100;
const [dir = '', ...numbers] = process.argv.slice(2);
const [events = 0, rounds = 0] = numbers.map(Number);
const [clock, logger] = [systemClock, silentLogger];

/** How many subscriptions there may be. */
const MOST = 200;

export interface PlanningCost {
  readonly seconds: Readonly<Record<'one' | 'different' | 'everything', number[]>>;
  /** Of a change that MOST subscriptions take, committed and planned alone. */
  readonly change: { readonly bytes: number; readonly cpuMs: number };
}

const dictionaryOf = (n: number): string => `bench.${n % SUBSCRIPTIONS}`;

const seconds: PlanningCost['seconds'] = await inTurns(
  { rounds },
  {
    one: () => secondsFor(subscriptions(1, () => null)),
    different: () => secondsFor(subscriptions(SUBSCRIPTIONS, (n) => [dictionaryOf(n)])),
    everything: () => secondsFor(subscriptions(SUBSCRIPTIONS, () => null)),
  },
);
const cost: PlanningCost = { seconds, change: await changeFor(subscriptions(MOST, () => null)) };
console.log(JSON.stringify(cost));
process.exit(0);

function subscriptions(count: number, dictionaries: (n: number) => readonly string[] | null): FakeCache {
  const cache = new FakeCache();
  for (let n = 0; n < count; n++) cache.put(n + 1, { scopes: ['PUBLIC'], dictionaries: dictionaries(n) });
  return cache;
}

async function secondsFor(cache: FakeCache): Promise<number> {
  const { planner, close } = plannerFor(cache, events);
  planner.start();
  const begin = performance.now();
  await planner.caughtUp();
  const found = (performance.now() - begin) / 1_000;
  await close();
  return found;
}

async function changeFor(cache: FakeCache): Promise<PlanningCost['change']> {
  const { store, planner, close } = plannerFor(cache, 0);
  const change = async (n: number): Promise<void> => {
    await store.commit({ changedBy: 'bench', changeReason: '' }, (tx) =>
      emitEvent(tx, eventOf(n, keyOf(n), 1, dataOf(n))),
    );
    await planner.caughtUp();
  };
  const warm = 50;
  for (let n = 0; n < warm; n++) await change(n);
  const [before, cpu] = [io(process.pid), process.cpuUsage()];
  const count = 300;
  for (let n = warm; n < warm + count; n++) await change(n);
  const { user, system } = process.cpuUsage(cpu);
  const bytes = (io(process.pid).writeBytes - before.writeBytes) / count;
  await close();
  return { bytes, cpuMs: (user + system) / 1_000 / count };
}

function plannerFor(cache: FakeCache, stored: number) {
  const folder = join(dir, 'planning');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const connection = filledFile(folder, (file) => {
    if (stored > 0) insertEvents(file, stored, stored, (n) => ({ dictionary: dictionaryOf(n) }));
  });
  const store = storeOn(connection, folder);
  const running = new RunningTime(
    { runMs: 0, bootId: '', bootMs: 0 },
    { id: 'bench', monoMs: () => performance.now() },
  );
  const randomHex = (): string => randomBytes(8).toString('hex');
  const rows = new DeliveryRows(connection);
  const planner = new Planner({ store, cache, rows, running, clock, logger, randomHex });
  const close = async (): Promise<void> => {
    await planner.stop();
    await store.close();
  };
  return { store, planner, close };
}
