/**
 * A crew: some tens of the fleet's boxes in one process, told by messages what to do (fleet-crews.ts). Nobody listens to
 * its output; when whoever started it is gone it ends.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaOptions } from '../../src/hub/kafka/face.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { type Box, startBox } from './fleet-box.ts';
import { monotonicMs } from './fleet-gate.ts';
import { seeded } from './random.ts';

export interface CrewOrders {
  readonly dir: string;
  /** Numbers of its boxes: from the first, so many. */
  readonly first: number;
  readonly count: number;
  readonly seed: number;
  readonly kafka: Omit<KafkaOptions, 'clientId'>;
}

export type ToCrew =
  | { readonly kind: 'begin'; readonly orders: CrewOrders }
  /** Each box writes a change now and then; 0: none of them any more. */
  | { readonly kind: 'write'; readonly everyMs: number }
  | { readonly kind: 'end' };

export interface Tally {
  readonly kind: 'tally';
  readonly connected: number;
  readonly started: number;
  readonly written: number;
  readonly waiting: number;
  readonly unreached: number;
  readonly replaced: number;
  readonly rssBytes: number;
  readonly cpuMs: number;
}
/** A box found its broker, or lost it. */
export interface Turn {
  readonly kind: 'turn';
  readonly box: string;
  readonly connected: boolean;
  /** monotonicMs() */
  readonly atMs: number;
}
/** Boxes and how many changes each has written. */
export interface Ended {
  readonly kind: 'ended';
  readonly written: Readonly<Record<string, number>>;
}
export type FromCrew = Tally | Turn | Ended;

const TALLY_MS = 1_000;
/** Between two boxes of a crew that begin: a power cut's end is milder than a thousand starts on two cores. */
const BEGIN_PAUSE_MS = 20;
const DRAIN_MS = 2_000;

export function boxName(number: number): string {
  return `box-${String(number).padStart(4, '0')}`;
}

const boxes: Box[] = [];
let everyMs = 0;

function say(message: FromCrew): void {
  process.send?.(message);
}

function tally(): void {
  const { user, system } = process.cpuUsage();
  const states = boxes.map(({ broker }) => broker.state());
  const status = boxes.map(({ publisher }) => publisher.status());
  say({
    kind: 'tally',
    started: boxes.length,
    connected: states.filter(({ connected }) => connected).length,
    replaced: states.reduce((sum, { producersReplaced }) => sum + producersReplaced, 0),
    written: boxes.reduce((sum, box) => sum + box.written(), 0),
    waiting: status.reduce((sum, { waiting }) => sum + waiting, 0),
    unreached: status.reduce((sum, { unreachedTotal }) => sum + unreachedTotal, 0),
    rssBytes: process.memoryUsage.rss(),
    cpuMs: (user + system) / 1_000,
  });
}

async function begin({ dir, first, count, seed, kafka }: CrewOrders): Promise<void> {
  const random = seeded(seed);
  for (let number = first; number < first + count; number++) {
    const name = boxName(number);
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
