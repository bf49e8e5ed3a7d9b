/** From a change's commit to its consumer, where nothing else goes on. */
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { lineReader, sleep, stop, temporaryDirectory } from '../processes.ts';
import { judge, quantile, type Row, times } from '../table.ts';
import { startBroker } from './broker.ts';
import { program } from './child.ts';

const AIM = 2;
const PREFIX = 'bench-own';
const BARE_TOPIC = 'bench-bare';
const NS_PER_MS = 1e6;
const SETTLE_MS = 2_000;

export const latency: Row = {
  name: 'latency',
  async run({ quick, say }) {
    const blocks = quick ? 4 : 40;
    const broker = await startBroker();
    const topics = [`${PREFIX}.public`, BARE_TOPIC];
    for (const topic of topics) await broker.createTopic(topic);
    const consumer = program('consumer', [broker.bootstrap, ...topics]);
    const nextLine = lineReader(consumer.stdout);
    if ((await nextLine()) !== 'ready') throw new Error('the consumer did not start');
    const arrived = collect(nextLine);
    await sleep(SETTLE_MS);
    const dir = join(temporaryDirectory(), 'data');
    const changes = program('latency', [broker.bootstrap, PREFIX, BARE_TOPIC, dir, blocks]);
    const sent = await sentOf(changes.stdout);
    await once(changes, 'exit');
    await until('every message', () => [...sent.keys()].every((key) => arrived.has(key)));
    await stop(consumer);
    await broker.close();
    const delays = (which: string): number[] =>
      [...sent].filter(([key]) => key.includes(`:${which}-`)).map(([key, at]) => ms(at, arrived.get(key) ?? 0n));
    const [own, bare] = [delays('own'), delays('bare')];
    const show = (all: readonly number[]): string =>
      `${quantile(all, 0.5).toFixed(1)} / ${quantile(all, 0.99).toFixed(1)} ms`;
    say(`lineside ${show(own)}, bare ${show(bare)}`);
    const ratio = (q: number): number => quantile(own, q) / quantile(bare, q);
    return [
      {
        row: `commit to consumer, idle system, p50 / p99 of ${own.length} changes`,
        lineside: show(own),
        against: `bare node-rdkafka, produce to consume, same settings: ${show(bare)}`,
        ratio: `${times(ratio(0.5))} / ${times(ratio(0.99))}`,
        aim: `p50 within ${AIM} x`,
        verdict: judge(ratio(0.5) <= AIM),
      },
    ];
  },
};

const ms = (from: bigint, to: bigint): number => Number(to - from) / NS_PER_MS;

/** The first arrival of each key. */
function collect(nextLine: () => Promise<string | undefined>): ReadonlyMap<string, bigint> {
  const arrived = new Map<string, bigint>();
  void (async () => {
    for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
      const [key = '', at = ''] = line.split(' ');
      if (!arrived.has(key)) arrived.set(key, BigInt(at));
    }
  })();
  return arrived;
}

async function sentOf(stdout: Readable): Promise<ReadonlyMap<string, bigint>> {
  const sent = new Map<string, bigint>();
  const nextLine = lineReader(stdout);
  for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
    const [key = '', at = ''] = line.split(' ');
    sent.set(key, BigInt(at));
  }
  return sent;
}
