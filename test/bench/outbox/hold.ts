/** How long an import of 50,000 records keeps the hub from everything else, with deliveries at the same time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { releaseAfterStartMs } from '../../../src/shared/base/memory.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { drained, outbox } from '../../e2e/hub-support.ts';
import { rowsBroker } from '../broker.ts';
import { type Line, more, type Row, shown } from '../table.ts';
import { compiled } from './child.ts';
import { type RowsHub, startHub } from './hub.ts';
import { dataOf } from './samples.ts';
import { seedWaiting } from './seed.ts';

const AIM_MS = 1_000;
const IDLE_MS = 5_000;
const PING_MS = 10;
const DRAIN_LIMIT_MS = 120_000;

export const hold: Row = {
  name: 'hold',
  async run({ quick, say }) {
    const records = quick ? 10_000 : 50_000;
    const backlogRows = quick ? 20_000 : 200_000;
    const broker = await rowsBroker();
    const hub = await startHub({
      bootstrap: broker.plain,
      nodeOptions: ['--import', compiled('loop-probe')],
      seed: (dir) => seedWaiting(dir, backlogRows, backlogRows / 10),
    });
    const probe = (): Promise<number> => longestHold(hub);
    await hub.createDictionary();
    // The deliveries alone first, then beside an import, then an import alone.
    await until('the first deliveries', async () => (await outbox(hub.api)).publishedTotal > 0);
    await probe();
    const busy = await imported(hub, records, 'busy');
    const busyHold = await probe();
    say(
      `beside deliveries: hold ${busyHold.toFixed(1)} ms, import ${busy.ms.toFixed(0)} ms, still waiting ${busy.waiting}`,
    );
    await drained(hub.api, DRAIN_LIMIT_MS);
    const afterHold = await probe();
    const quiet = await imported(hub, records, 'quiet');
    const quietHold = await probe();
    const { refusedTotal, unreachedTotal, publishedTotal } = await drained(hub.api, DRAIN_LIMIT_MS);
    // The hub releases once what its start left behind, which holds its loop.
    await sleep(releaseAfterStartMs);
    await probe();
    await sleep(IDLE_MS);
    const idleHold = await probe();
    await hub.stop();
    await broker.kill();
    const undelivered = refusedTotal + unreachedTotal;
    const line = (row: string, heldMs: number, note: string, judged: boolean): Line => {
      const ok = heldMs <= AIM_MS && undelivered === 0;
      const beyond = more(heldMs - idleHold, 1, 'ms', `at most ${AIM_MS} ms, no delivery timed out`, ok);
      return {
        row,
        lineside: `${heldMs.toFixed(1)} ms${note}`,
        against: `idle: ${idleHold.toFixed(1)} ms`,
        ...(judged ? beyond : shown(beyond.ratio)),
      };
    };
    const size = records.toLocaleString('en');
    const result = (one: Imported): string =>
      `; imported in ${(one.ms / 1_000).toFixed(1)} s, slowest other request ${one.slowestMs.toFixed(0)} ms, slowest change ${one.slowestChangeMs.toFixed(0)} ms`;
    const deliveries = `; ${publishedTotal.toLocaleString('en')} delivered, ${undelivered} not at the first try`;
    return [
      line(
        `longest hold of the hub's loop, import of ${size} records beside deliveries`,
        busyHold,
        result(busy) + deliveries,
        true,
      ),
      line(`the same, nothing else to deliver`, quietHold, result(quiet), true),
      line('the same, deliveries alone', afterHold, '', false),
    ];
  },
};

interface Imported {
  readonly ms: number;
  /** Rows that waited when it was over. */
  readonly waiting: number;
  readonly slowestMs: number;
  /** Of changes of single records: they wait for the import to end. */
  readonly slowestChangeMs: number;
}

async function imported(hub: RowsHub, records: number, prefix: string): Promise<Imported> {
  const work = hub.importer(records, prefix);
  let over = false;
  const repeated = async (ask: (n: number) => Promise<unknown>): Promise<number> => {
    let slowest = 0;
    for (let n = 0; !over; n++) {
      const begin = performance.now();
      await ask(n);
      slowest = Math.max(slowest, performance.now() - begin);
      await sleep(PING_MS);
    }
    return slowest;
  };
  const others = repeated(() => hub.api.get('/healthz'));
  const changes = repeated((n) => hub.create(`${prefix}-single-${n}`, dataOf(n)));
  const begin = performance.now();
  await work();
  const ms = performance.now() - begin;
  over = true;
  const { waiting } = await outbox(hub.api);
  return { ms, waiting, slowestMs: await others, slowestChangeMs: await changes };
}

/** Since it was asked last, milliseconds. */
async function longestHold(hub: RowsHub): Promise<number> {
  const from = hub.logLines.length;
  process.kill(hub.pid(), 'SIGUSR2');
  const line = await hub.waitFor(/^longest hold [\d.]+ ms$/, from);
  return Number(line.split(' ')[2]);
}
