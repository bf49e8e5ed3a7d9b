/**
 * Seconds to plan the same events for one subscription, for a hundred that each take another dictionary (as many deliveries
 * as for the one), and for a hundred that take everything. planning.ts DIR EVENTS ROUNDS: prints PlanningSeconds.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { hubMigrations } from '../../../../src/hub/hub-migrations.ts';
import { openChangeStore } from '../../../../src/hub/outbox/change-store.ts';
import { openRefdataFile } from '../../../../src/hub/outbox/refdata-file.ts';
import { beginProgress, OutboxRows } from '../../../../src/hub/outbox/rows.ts';
import type { Known, SubscriptionBook } from '../../../../src/hub/webhooks/parts.ts';
import { createPlanner } from '../../../../src/hub/webhooks/planner.ts';
import { createRunningTime } from '../../../../src/hub/webhooks/running-time.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import { eventAt, instantOf } from '../../outbox/samples.ts';

const SUBSCRIPTIONS = 100;
const [dir = '', ...numbers] = process.argv.slice(2);
const [events = 0, rounds = 0] = numbers.map(Number);
const [clock, logger] = [systemClock, silentLogger];

export type PlanningSeconds = Readonly<Record<'one' | 'different' | 'everything', number[]>>;

const dictionaryOf = (n: number): string => `bench.${n % SUBSCRIPTIONS}`;

const books: Readonly<Record<keyof PlanningSeconds, SubscriptionBook>> = {
  one: bookOf([known(1, null)]),
  different: bookOf(Array.from({ length: SUBSCRIPTIONS }, (_, n) => known(n + 1, [dictionaryOf(n)]))),
  everything: bookOf(Array.from({ length: SUBSCRIPTIONS }, (_, n) => known(n + 1, null))),
};
const seconds: PlanningSeconds = { one: [], different: [], everything: [] };
for (let round = 0; round < rounds; round++)
  for (const which of ['one', 'different', 'everything'] as const) seconds[which].push(await secondsFor(books[which]));
console.log(JSON.stringify(seconds));
process.exit(0);

async function secondsFor(book: SubscriptionBook): Promise<number> {
  const place = join(dir, 'planning');
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place);
  const { connection } = openRefdataFile(place, hubMigrations);
  connection.transaction(() => {
    beginProgress(connection);
    const outbox = new OutboxRows(connection);
    for (let n = 0; n < events; n++) {
      const { event, stamp } = eventAt(n, events);
      outbox.insert(n + 1, { ...event, dictionary: dictionaryOf(n) }, stamp);
    }
    outbox.advance(instantOf(events), events);
  })();
  const maxBytes = 8 * 1024 ** 3;
  const store = openChangeStore({ connection, dir: place, maxBytes, minFreeBytes: 0, clock, logger });
  const running = createRunningTime({
    row: { runMs: 0, bootId: '', bootMs: 0 },
    boot: { id: 'bench', monoMs: () => performance.now() },
  });
  const randomHex = (): string => randomBytes(8).toString('hex');
  const planner = createPlanner({ store, book, running, clock, logger, randomHex });
  planner.start();
  const begin = performance.now();
  await planner.caughtUp();
  const found = (performance.now() - begin) / 1_000;
  await planner.stop();
  await store.close();
  return found;
}

function known(id: number, dictionaries: readonly string[] | null): Known {
  return {
    id,
    name: `bench ${id}`,
    url: 'https://subscriber.test/',
    consumer: 'local',
    active: true,
    version: 1,
    formId: id,
    afterEvent: 0,
    scopes: ['PUBLIC'],
    dictionaries,
    actions: null,
    categories: null,
  };
}

function bookOf(all: readonly Known[]): SubscriptionBook {
  return {
    all: () => all,
    byId: (id) => all.find((one) => one.id === id),
    secrets: () => ({ unreadable: 'nothing is sent here' }),
    blocked: () => '',
    openScopes: ({ scopes }) => scopes,
    onChanged: () => undefined,
  };
}
