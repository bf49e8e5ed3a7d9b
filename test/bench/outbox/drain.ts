/** Rows that piled up while there was no broker: how fast they go out when it is back. */
import { rmSync } from 'node:fs';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import type { TestBroker } from '../../kafka/broker.ts';
import { rowsBroker } from '../broker.ts';
import { atLeast, inTurns, type Line, medianOf, type Row } from '../table.ts';
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
    const broker = await rowsBroker();
    const lines: Line[] = [];
    // Java compiles while it runs: the first that come would be slower.
    for (let round = 0; round < 2; round++) await once(broker, 'bare', rows, rows);
    for (const keys of [rows / 10, rows]) {
      const { own, bare } = await inTurns(
        { rounds },
        { bare: () => once(broker, 'bare', rows, keys), own: () => once(broker, 'own', rows, keys) },
        (who, { ms, cpu }) => say(`${who}, ${keys} keys: ${perSecond(rows, ms)}, ${cpu.toFixed(1)} CPU s`),
      );
      lines.push(line(rows, keys, own, bare));
    }
    await broker.kill();
    return lines;
  },
};

async function once(broker: TestBroker, who: 'own' | 'bare', rows: number, keys: number): Promise<Drain> {
  const prefix = `bench-${who}-${keys}-${Math.round(performance.now())}`;
  await broker.admin.createTopic(`${prefix}.public`, PARTITIONS);
  const data = temporaryDirectory();
  if (who === 'own') seedWaiting(data, rows, keys);
  const found = await measured<Drain>('drain', [who, broker.plain, prefix, data, rows, keys]);
  rmSync(data, { recursive: true });
  return found;
}

const perSecond = (rows: number, ms: number): string => `${Math.round((rows / ms) * 1_000)}/s`;

function line(rows: number, keys: number, own: readonly Drain[], bare: readonly Drain[]): Line {
  const [ownMs, bareMs] = [medianOf(own, ({ ms }) => ms), medianOf(bare, ({ ms }) => ms)];
  const cpu = (drains: readonly Drain[]): string => `${medianOf(drains, (one) => one.cpu).toFixed(1)} CPU s`;
  return {
    row: `draining ${rows.toLocaleString('en')} waiting rows of ${ENVELOPE_BYTES} bytes, ${keys.toLocaleString('en')} keys, to Apache Kafka, ${PARTITIONS} partitions`,
    lineside: `${perSecond(rows, ownMs)}, ${cpu(own)}; each marked in the file`,
    against: `bare node-rdkafka, same settings, from memory: ${perSecond(rows, bareMs)}, ${cpu(bare)}`,
    ...atLeast(bareMs / ownMs, AIM),
  };
}
