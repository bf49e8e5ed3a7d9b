/** What the card has to bear: bytes written to storage for each change, its marking and all checkpoints included. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { drained, outbox, update } from '../../e2e/hub-support.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { rowsBroker } from '../broker.ts';
import { CARD_BYTES } from '../card.ts';
import { accountedIn, io, ioIn } from '../processes.ts';
import { atMost, type Line, type Row, rate, shown } from '../table.ts';
import { type RowsHub, startHub } from './hub.ts';
import { DICTIONARY, dataOf, sentOf } from './samples.ts';

const CLIENTS = 8;
/** Slow enough that each change is acknowledged, and marked by a transaction of its own, before the next. */
const APART_MS = 40;
const MIB = 1024 * 1024;
/** outbox.max_bytes as it is shipped. */
const LIMIT_BYTES = 2 * 1024 * MIB;
/** Ten years. */
const CARD_DAYS = 3_650;

interface Cost {
  readonly writtenPerChange: number;
  readonly untilStopPerChange: number;
  /** Of refdata.db afterwards. */
  readonly keptPerChange: number;
}

export const bytes: Row = {
  name: 'bytes',
  async run({ quick, say }) {
    const broker = await rowsBroker();
    const few = quick ? 200 : 1_500;
    const many = quick ? 500 : 5_000;
    const bundle = quick ? 10_000 : 50_000;
    const one = `single changes ${1_000 / APART_MS} a second at most`;
    const cases: readonly Case[] = [
      { what: one, changes: few, work: (hub) => apart(few, create(hub)), aimBytes: 16_000 },
      { what: `${one}, updates of scattered records`, changes: few, ...updates(few, bundle), aimBytes: 25_000 },
      {
        what: `single changes, ${CLIENTS} clients at once`,
        changes: many,
        work: (hub) => rate(many, CLIENTS, create(hub)),
      },
      {
        what: `a bundle of ${bundle.toLocaleString('en')}`,
        changes: bundle,
        work: (hub) => hub.importer(bundle, 'tool')(),
        aimBytes: 2_600,
      },
    ];
    const lines: Line[] = [];
    for (const one of cases) {
      const cost = await measure(broker, one);
      say(`${one.what}: ${JSON.stringify(cost)}`);
      lines.push(line(one, cost));
    }
    await broker.kill();
    return lines;
  },
};

interface Case {
  readonly what: string;
  readonly changes: number;
  /** Not measured. */
  readonly before?: (hub: RowsHub) => Promise<unknown>;
  readonly work: (hub: RowsHub) => Promise<unknown>;
  readonly aimBytes?: number;
}

const create = (hub: RowsHub) => (n: number) => hub.create(`tool-${n}`, dataOf(n));

/** One record of each so many, of a dictionary that is much larger than the cache. */
function updates(count: number, records: number): Pick<Case, 'before' | 'work'> {
  const apartBy = Math.floor(records / count);
  return {
    before: (hub) => hub.importer(records, 'tool')(),
    work: (hub) =>
      apart(count, (n) => {
        // In no order: 7,919 is a prime.
        const place = ((n * 7_919) % count) * apartBy;
        return update(hub.api, DICTIONARY, `tool-${place}`, 1, dataOf(place, 2));
      }),
  };
}

async function apart(changes: number, change: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < changes; n++) {
    await change(n);
    await sleep(APART_MS);
  }
}

async function measure(broker: TestBroker, { changes, before: prepare, work }: Case): Promise<Cost> {
  const account = join(temporaryDirectory(), 'io');
  const hub = await startHub({ bootstrap: broker.plain, wrapper: accountedIn(account) });
  await hub.createDictionary();
  await until('the connection to the broker', async () => (await outbox(hub.api)).broker.connected);
  await prepare?.(hub);
  await drained(hub.api);
  const emptyBytes = await usedBytes(hub);
  const before = io(hub.pid());
  await work(hub);
  await drained(hub.api);
  const written = io(hub.pid());
  const keptBytes = (await usedBytes(hub)) - emptyBytes;
  await hub.stop();
  return {
    writtenPerChange: (ioIn(account).writeBytes - before.writeBytes) / changes,
    untilStopPerChange: (written.writeBytes - before.writeBytes) / changes,
    keptPerChange: keptBytes / changes,
  };
}

async function usedBytes(hub: RowsHub): Promise<number> {
  const { text: metrics } = await hub.api.get('/metrics');
  return Number(/^lineside_refdata_bytes (\S+)$/m.exec(metrics)?.[1] ?? Number.NaN);
}

function line({ what, aimBytes }: Case, cost: Cost): Line {
  const data = JSON.stringify(dataOf(1_000));
  const perDay = CARD_BYTES / CARD_DAYS / cost.writtenPerChange;
  const fit = LIMIT_BYTES / cost.keptPerChange;
  const count = (number: number): string => Number(number.toPrecision(2)).toLocaleString('en');
  const reported = `${count(perDay)} changes a day for ten years on a card that bears ${CARD_BYTES / 1e12} TB; ${count(fit)} changes fit into outbox.max_bytes (2 GiB)`;
  return {
    row: `bytes written per change, ${what}, delivered and marked`,
    lineside: `${Math.round(cost.writtenPerChange)} bytes (${Math.round(cost.untilStopPerChange)} until the stop), ${Math.round(cost.keptPerChange)} of them stay in refdata.db: ${reported}`,
    against: `the change's JSON: ${data.length} bytes, its event ${sentOf(1_000).length}`,
    ...(aimBytes === undefined
      ? shown(`${(cost.writtenPerChange / data.length).toFixed(1)} x`)
      : atMost(cost.writtenPerChange, aimBytes, 'bytes')),
  };
}
