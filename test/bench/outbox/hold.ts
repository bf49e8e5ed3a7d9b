/** How long an import of 50,000 records keeps the hub from everything else, with deliveries going on beside it. */
import { createInterface } from 'node:readline';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { sleep } from '../processes.ts';
import { judge, type Line, type Row } from '../table.ts';
import { startBroker } from './broker.ts';
import { compiled } from './child.ts';
import { type Hub, startHub } from './hub.ts';
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
    const broker = await startBroker();
    const hub = await startHub({
      bootstrap: broker.bootstrap,
      nodeOptions: ['--import', compiled('loop-probe')],
      seed: (dir) => seedWaiting(dir, backlogRows, backlogRows / 10),
    });
    const probe = probeOf(hub);
    await hub.createDictionary();
    // The deliveries alone first, then beside an import, then an import alone.
    await until('the first deliveries', async () => (await hub.outbox()).publishedTotal > 0);
    await probe();
    const busy = await imported(hub, records, 'busy');
    const busyHold = await probe();
    say(
      `beside deliveries: hold ${busyHold.toFixed(1)} ms, import ${busy.ms.toFixed(0)} ms, still waiting ${busy.waiting}`,
    );
    await until('the outbox to be empty', async () => (await hub.outbox()).waiting === 0, DRAIN_LIMIT_MS);
    const afterHold = await probe();
    const quiet = await imported(hub, records, 'quiet');
    const quietHold = await probe();
    await until('the outbox to be empty', async () => (await hub.outbox()).waiting === 0, DRAIN_LIMIT_MS);
    const { refusedTotal, unreachedTotal, publishedTotal } = await hub.outbox();
    await probe();
    await sleep(IDLE_MS);
    const idleHold = await probe();
    await hub.close();
    await broker.close();
    const undelivered = refusedTotal + unreachedTotal;
    const line = (what: string, heldMs: number, more: string, judged: boolean): Line => ({
      row: what,
      lineside: `${heldMs.toFixed(1)} ms${more}`,
      against: `idle: ${idleHold.toFixed(1)} ms`,
      ratio: `+${(heldMs - idleHold).toFixed(1)} ms`,
      aim: judged ? `at most ${AIM_MS} ms, no delivery timed out` : 'shown beside it',
      verdict: judged ? judge(heldMs <= AIM_MS && undelivered === 0) : 'shown',
    });
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

async function imported(hub: Hub, records: number, prefix: string): Promise<Imported> {
  const body = hub.bundle(records, prefix);
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
  await hub.importBundle(body);
  const ms = performance.now() - begin;
  over = true;
  const { waiting } = await hub.outbox();
  return { ms, waiting, slowestMs: await others, slowestChangeMs: await changes };
}

/** The longest hold since it was asked last, milliseconds. */
function probeOf(hub: Hub): () => Promise<number> {
  const lines = createInterface({ input: hub.errors });
  return () =>
    new Promise((resolve) => {
      const look = (line: string): void => {
        const found = /^longest hold ([\d.]+) ms$/.exec(line)?.[1];
        if (found === undefined) return;
        lines.off('line', look);
        resolve(Number(found));
      };
      lines.on('line', look);
      process.kill(hub.pid, 'SIGUSR2');
    });
}
