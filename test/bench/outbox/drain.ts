/** Rows that piled up while there was no broker: how fast they go out when it is back. */
import { rmSync } from 'node:fs';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { rowsBroker } from '../broker.ts';
import { type Drained, drainLine, type Line, type Row } from '../table.ts';
import { measured } from './child.ts';
import { EVENT_BYTES } from './samples.ts';
import { seedWaiting } from './seed.ts';
import { PARTITIONS } from './settings.ts';

const AIM = 0.7;

export const drain: Row = {
  name: 'drain',
  whyMissed:
    'In a profile, reading the rows, whose events SQLite makes, has 12 % of the time, garbage 13 %, marking 7 % and its ' +
    "commits 10 %; node-rdkafka's produce and poll, which the peer needs as well, have 15 %. Tried: larger groups of " +
    'marks saved nothing (src/hub/outbox/publisher).',
  async run({ quick, say }) {
    const rows = quick ? 50_000 : 200_000;
    const rounds = quick ? 1 : 5;
    const broker = await rowsBroker();
    const lines: Line[] = [];
    // Java compiles while it runs: the first that come would be slower.
    for (let round = 0; round < 2; round++) await once(broker, 'bare', rows, rows);
    for (const keys of [rows / 10, rows]) {
      const count = (n: number): string => n.toLocaleString('en');
      const line = await drainLine({
        row: `draining ${count(rows)} waiting rows of ${EVENT_BYTES} bytes, ${count(keys)} keys, to Apache Kafka, ${PARTITIONS} partitions`,
        rounds,
        say,
        rate: (ms) => `${Math.round((rows / ms) * 1_000)}/s`,
        own: () => once(broker, 'own', rows, keys),
        ownNote: '; each marked in the file',
        bare: () => once(broker, 'bare', rows, keys),
        bareWhat: 'bare node-rdkafka, same settings, from memory',
        aim: AIM,
      });
      lines.push(line);
    }
    await broker.kill();
    return lines;
  },
};

async function once(broker: TestBroker, who: 'own' | 'bare', rows: number, keys: number): Promise<Drained> {
  const prefix = `bench-${who}-${keys}-${Math.round(performance.now())}`;
  await broker.admin.createTopic(`${prefix}.public`, PARTITIONS);
  const data = temporaryDirectory();
  if (who === 'own') seedWaiting(data, rows, keys);
  const found = await measured<Drained>('drain', [who, broker.plain, prefix, data, rows, keys]);
  rmSync(data, { recursive: true });
  return found;
}
