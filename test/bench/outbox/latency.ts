/** From a change's commit to its consumer, on an idle system. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { rowsBroker } from '../broker.ts';
import { lineReader, stop } from '../processes.ts';
import { judge, quantile, type Row, times } from '../table.ts';
import { program } from './child.ts';
import { PARTITIONS } from './settings.ts';

const AIM = 2;
const PREFIX = 'bench-own';
const BARE_TOPIC = 'bench-bare';
const NS_PER_MS = 1e6;
const SETTLE_MS = 2_000;

export const latency: Row = {
  name: 'latency',
  async run({ quick, say }) {
    const blocks = quick ? 4 : 40;
    const broker = await rowsBroker();
    const topics = [`${PREFIX}.public`, BARE_TOPIC];
    for (const topic of topics) await broker.admin.createTopic(topic, PARTITIONS);
    const consumer = program('consumer', [broker.plain, ...topics]);
    const nextLine = lineReader(consumer.stdout);
    if ((await nextLine()) !== 'ready') throw new Error('the consumer did not start');
    const [arrived, sent] = [new Map<string, bigint>(), new Map<string, bigint>()];
    void stampsFrom(nextLine, arrived);
    await sleep(SETTLE_MS);
    const changes = program('latency', [broker.plain, PREFIX, BARE_TOPIC, temporaryDirectory(), blocks]);
    const exited = once(changes, 'exit');
    await stampsFrom(lineReader(changes.stdout), sent);
    await exited;
    await until('every message', () => [...sent.keys()].every((key) => arrived.has(key)));
    await stop(consumer);
    await broker.kill();
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

/** Lines of a key and its nanoseconds, as they come; the first of each key counts. Settles when the stream has ended. */
async function stampsFrom(nextLine: () => Promise<string | undefined>, into: Map<string, bigint>): Promise<void> {
  for (let line = await nextLine(); line !== undefined; line = await nextLine()) {
    const [key = '', at = ''] = line.split(' ');
    if (!into.has(key)) into.set(key, BigInt(at));
  }
}
