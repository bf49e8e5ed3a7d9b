/** What the card has to bear: bytes written to storage for each change, its marking and all checkpoints included. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { drained, outbox } from '../../e2e/hub-support.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { rowsBroker } from '../broker.ts';
import { CARD_BYTES } from '../card.ts';
import { accountedIn, io, ioIn } from '../processes.ts';
import { type Line, type Row, rate, shown } from '../table.ts';
import { type RowsHub, startHub } from './hub.ts';
import { bareChange } from './programs/bare-store.ts';
import { dataOf } from './samples.ts';

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
    const cases = [
      [`single changes ${1_000 / APART_MS} a second at most`, few, (hub: RowsHub) => apart(hub, few)],
      [`single changes, ${CLIENTS} clients at once`, many, (hub: RowsHub) => rate(many, CLIENTS, create(hub))],
      [`a bundle of ${bundle.toLocaleString('en')}`, bundle, (hub: RowsHub) => hub.importer(bundle, 'tool')()],
    ] as const;
    const lines: Line[] = [];
    for (const [what, changes, work] of cases) {
      const cost = await measure(broker, changes, work);
      say(`${what}: ${JSON.stringify(cost)}`);
      lines.push(line(what, cost));
    }
    await broker.kill();
    return lines;
  },
};

const create = (hub: RowsHub) => (n: number) => hub.create(`tool-${n}`, dataOf(n));

async function apart(hub: RowsHub, changes: number): Promise<void> {
  for (let n = 0; n < changes; n++) {
    await create(hub)(n);
    await sleep(APART_MS);
  }
}

async function measure(broker: TestBroker, changes: number, work: (hub: RowsHub) => Promise<unknown>): Promise<Cost> {
  const account = join(temporaryDirectory(), 'io');
  const hub = await startHub({ bootstrap: broker.plain, wrapper: accountedIn(account) });
  await hub.createDictionary();
  await until('the connection to the broker', async () => (await outbox(hub.api)).broker.connected);
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

function line(what: string, cost: Cost): Line {
  const { data, envelope } = bareChange(1_000);
  const perDay = CARD_BYTES / CARD_DAYS / cost.writtenPerChange;
  const fit = LIMIT_BYTES / cost.keptPerChange;
  const count = (number: number): string => Number(number.toPrecision(2)).toLocaleString('en');
  return {
    row: `bytes written per change, ${what}, delivered and marked`,
    lineside: `${Math.round(cost.writtenPerChange)} bytes (${Math.round(cost.untilStopPerChange)} until the stop), ${Math.round(cost.keptPerChange)} of them stay in refdata.db`,
    against: `the change's JSON: ${data.length} bytes, its event ${envelope.length}`,
    ...shown(
      `${(cost.writtenPerChange / data.length).toFixed(1)} x`,
      `reported: ${count(perDay)} changes a day for ten years on a card that bears ${CARD_BYTES / 1e12} TB; ${count(fit)} changes fit into outbox.max_bytes (2 GiB)`,
    ),
  };
}
