/** Rows that piled up while there was no broker: how fast they go out when it is back. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { removeDirectory, temporaryDirectory } from '../processes.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';
import { type BenchBroker, startBroker } from './broker.ts';
import { measured } from './child.ts';
import type { Drain } from './programs/drain.ts';
import { ENVELOPE_BYTES } from './samples.ts';
import { seedWaiting } from './seed.ts';
import { PARTITIONS } from './settings.ts';

const AIM = 0.6;

export const drain: Row = {
  name: 'drain',
  async run({ quick, say }) {
    const rows = quick ? 50_000 : 200_000;
    const rounds = quick ? 1 : 5;
    const broker = await startBroker();
    const lines: Line[] = [];
    // Java compiles while it runs: the first that come would be slower.
    for (let round = 0; round < 2; round++) await once(broker, 'bare', rows, rows);
    for (const keys of [rows / 10, rows]) {
      const found: Record<'own' | 'bare', Drain[]> = { own: [], bare: [] };
      for (let round = 0; round < rounds; round++) {
        for (const who of ['bare', 'own'] as const) {
          const one = await once(broker, who, rows, keys);
          say(`${who}, ${keys} keys: ${perSecond(rows, one.ms)}, ${one.cpu.toFixed(1)} CPU s`);
          found[who].push(one);
        }
      }
      lines.push(line(rows, keys, found.own, found.bare));
    }
    await broker.close();
    return lines;
  },
};

async function once(broker: BenchBroker, who: 'own' | 'bare', rows: number, keys: number): Promise<Drain> {
  const prefix = `bench-${who}-${keys}-${Math.round(performance.now())}`;
  await broker.createTopic(`${prefix}.public`);
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  mkdirSync(data);
  if (who === 'own') seedWaiting(data, rows, keys);
  const found = await measured<Drain>('drain', [who, broker.bootstrap, prefix, data, rows, keys]);
  removeDirectory(dir);
  return found;
}

const perSecond = (rows: number, ms: number): string => `${Math.round((rows / ms) * 1_000)}/s`;

function line(rows: number, keys: number, own: readonly Drain[], bare: readonly Drain[]): Line {
  const [ownMs, bareMs] = [median(own.map(({ ms }) => ms)), median(bare.map(({ ms }) => ms))];
  const cpu = (drains: readonly Drain[]): string => `${median(drains.map((one) => one.cpu)).toFixed(1)} CPU s`;
  return {
    row: `draining ${rows.toLocaleString('en')} waiting rows of ${ENVELOPE_BYTES} bytes, ${keys.toLocaleString('en')} keys, to Apache Kafka, ${PARTITIONS} partitions`,
    lineside: `${perSecond(rows, ownMs)}, ${cpu(own)}; each marked in the file`,
    against: `bare node-rdkafka, same settings, from memory: ${perSecond(rows, bareMs)}, ${cpu(bare)}`,
    ratio: times(bareMs / ownMs),
    aim: `at least ${AIM} x`,
    verdict: judge(bareMs / ownMs >= AIM),
  };
}
