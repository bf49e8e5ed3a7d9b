/**
 * A crew: some tens of the fleet's boxes in one process, ordered by messages (fleet-crews.ts). Its output is
 * not read; it ends with the process that started it.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/shared/base/clock.ts';
import { monotonicMs } from '../gate.ts';
import { type Box, startBox } from './fleet-box.ts';
import type { CrewOrders, Ended, FromCrew, ToCrew } from './fleet-crews.ts';
import { seeded } from './random.ts';

const TALLY_MS = 1_000;
/** Between two boxes of a crew that begin: a power cut's end is milder than a thousand starts on two cores. */
const BEGIN_PAUSE_MS = 20;
const DRAIN_MS = 2_000;

const boxes: Box[] = [];
let everyMs = 0;

function say(message: FromCrew): void {
  process.send?.(message);
}

function tally(): void {
  const { user, system } = process.cpuUsage();
  const sums = { connected: 0, replaced: 0, written: 0, waiting: 0, unreached: 0 };
  for (const { broker, publisher, written } of boxes) {
    const { connected, producersReplaced } = broker.state();
    const { waiting, unreachedTotal } = publisher.status();
    sums.connected += Number(connected);
    sums.replaced += producersReplaced;
    sums.written += written();
    sums.waiting += waiting;
    sums.unreached += unreachedTotal;
  }
  const rssBytes = process.memoryUsage.rss();
  say({ kind: 'tally', ...sums, started: boxes.length, rssBytes, cpuMs: (user + system) / 1_000 });
}

async function begin({ dir, first, count, seed, kafka }: CrewOrders): Promise<void> {
  const random = seeded(seed);
  for (let number = first; number < first + count; number++) {
    const name = `box-${String(number).padStart(4, '0')}`;
    const turned = (connected: boolean): void => say({ kind: 'turn', box: name, connected, atMs: monotonicMs() });
    const box = startBox({ name, dir: join(dir, name), kafka, turned }, systemClock);
    boxes.push(box);
    void writeNowAndThen(box, random);
    await sleep(BEGIN_PAUSE_MS);
  }
}

/** At random moments, on average one in `everyMs`. */
async function writeNowAndThen(box: Box, random: ReturnType<typeof seeded>): Promise<void> {
  for (;;) {
    if (everyMs === 0) await sleep(100);
    else {
      await sleep(random.between(0, 2 * everyMs));
      if (everyMs > 0) await box.write();
    }
  }
}

async function end(): Promise<void> {
  await Promise.all(boxes.map((box) => box.stop(DRAIN_MS)));
  const written = Object.fromEntries(boxes.map((box) => [box.name, box.written()]));
  process.send?.({ kind: 'ended', written } satisfies Ended, () => process.exit(0));
}

process.on('disconnect', () => process.exit(1));
process.on('message', (message: ToCrew) => {
  if (message.kind === 'begin') void begin(message.orders);
  else if (message.kind === 'write') everyMs = message.everyMs;
  else void end();
});
setInterval(tally, TALLY_MS);
