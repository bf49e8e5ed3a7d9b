/**
 * Five boxes side by side, each with a line of its own and a way to the broker of its own: what each logged byte costs on
 * the link, and what sending it costs in processor time beside a box that does everything else and does not send.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from '../../e2e/daemon.ts';
import { openPort } from '../../e2e/faults.ts';
import type { Both } from '../../e2e/hub.ts';
import { figure } from '../../e2e/upstream-support.ts';
import type { Gate } from '../../soak/fleet-gate.ts';
import { gatedBroker } from '../broker.ts';
import { PtyDriver } from '../pty-driver.ts';
import { type Line, type Row, shown, times } from '../table.ts';
import { type BoxOptions, cpuOfBox, startBox } from './boxes.ts';
import { SENTENCE_BYTES, sentences } from './sentences.ts';

const BITS_PER_BYTE = 10;
const FAST = { baud: 115_200, bytesPerSecond: 115_200 / BITS_PER_BYTE, what: '115,200 baud of sentences' };
const SLOW = { baud: 9_600, bytesPerSecond: SENTENCE_BYTES, what: `one sentence of ${SENTENCE_BYTES} bytes a second` };
/** Longer than upstream.linger_ms: the first batches, and what the connection takes, are before. */
const BEFORE_S = 12;

type Case = Pick<BoxOptions, 'to' | 'compression'> & { readonly pace: typeof FAST };
const cases: readonly Case[] = [
  { pace: FAST, to: 'kafka', compression: 'zstd' },
  { pace: FAST, to: 'kafka', compression: 'none' },
  { pace: SLOW, to: 'kafka', compression: 'zstd' },
  { pace: SLOW, to: 'kafka', compression: 'none' },
  { pace: FAST, to: 'off' },
];

interface Cost {
  readonly linkPerByte: number;
  /** Percent of a core. */
  readonly line: number;
  readonly hub: number;
}

export const traffic: Row = {
  name: 'traffic',
  async run({ quick, say }) {
    const seconds = quick ? 20 : 120;
    const { broker, gates } = await gatedBroker(cases.length);
    const file = join(temporaryDirectory(), 'sentences');
    writeFileSync(file, sentences());
    const costs = await Promise.all(
      cases.map((one, n) => {
        const gate = gates[n];
        if (gate === undefined) throw new Error('a box without a gate');
        return measure(one, gate, file, seconds, `bench.serial-log-${n}`);
      }),
    );
    for (const gate of gates) gate.close();
    await broker.kill();
    for (const [n, one] of cases.entries())
      say(`${one.pace.what}, ${one.compression ?? 'off'}: ${JSON.stringify(costs[n])}`);
    const [on, , , , off] = costs;
    if (on === undefined || off === undefined) throw new Error('a case was not measured');
    return [
      ...cases.slice(0, -1).map((one, n) => linkLine(one, costs[n]?.linkPerByte ?? Number.NaN, seconds)),
      cpuLine(on, off, seconds),
    ];
  },
};

async function measure(
  { pace, ...options }: Case,
  gate: Gate,
  file: string,
  seconds: number,
  topic: string,
): Promise<Cost> {
  const driver = await PtyDriver.open();
  const box = await startBox({ ...options, bootstrap: `127.0.0.1:${gate.port}`, topic });
  await openPort(box.client, driver.slavePath, { baudRate: pace.baud });
  const end = driver.pace(
    pace.bytesPerSecond * (BEFORE_S + seconds + BEFORE_S),
    SENTENCE_BYTES,
    pace.bytesPerSecond,
    file,
  );
  await sleep(BEFORE_S * 1_000);
  const before = await figures(box, gate, options.to);
  await sleep(seconds * 1_000);
  const after = await figures(box, gate, options.to);
  await end;
  await box.stop();
  await driver.close();
  const wall = (after.atMs - before.atMs) / 1_000;
  return {
    linkPerByte: (after.link - before.link) / (after.sent - before.sent),
    line: ((after.line - before.line) / wall) * 100,
    hub: ((after.hub - before.hub) / wall) * 100,
  };
}

/** Just after a batch has gone, where batches go: so that whole ones are counted. */
async function figures(box: Both, gate: Gate, to: 'off' | 'kafka') {
  let sent = 0;
  if (to === 'kafka') {
    const last = await figure(box, 'sent_bytes_total');
    await until('another batch', async () => (await figure(box, 'sent_bytes_total')) > last);
    sent = await figure(box, 'sent_bytes_total');
  }
  const { up, down } = gate.bytes();
  return { atMs: performance.now(), link: up + down, sent, ...cpuOfBox(box) };
}

function linkLine({ pace, compression }: Case, perByte: number, seconds: number): Line {
  return {
    row: `bytes on the link per logged byte, ${pace.what}, ${compression === 'none' ? 'uncompressed' : (compression ?? '')}, ${seconds} s`,
    lineside: `${perByte.toFixed(3)}; ${Math.round((perByte * pace.bytesPerSecond * 86_400) / 1e6)} MB a day`,
    against: '1.0: the bytes of the line alone',
    ...shown(
      perByte.toFixed(3),
      'reported: payload of TCP, both directions, signs of life of both clients of the hub included',
    ),
  };
}

function cpuLine(on: Cost, off: Cost, seconds: number): Line {
  const percent = (value: number): string => `${value.toFixed(2)} %`;
  return {
    row: `CPU of line and hub, 115,200 baud continuous, upstream on, ${seconds} s`,
    lineside: `${percent(on.line + on.hub)} of a core (line ${percent(on.line)}, hub ${percent(on.hub)})`,
    against: `side by side with upstream off: ${percent(off.line + off.hub)} (line ${percent(off.line)}, hub ${percent(off.hub)})`,
    ...shown(times((on.line + on.hub) / (off.line + off.hub)), 'reported'),
  };
}
