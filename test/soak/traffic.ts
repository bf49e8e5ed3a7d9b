/** Traffic from all sides, each record of which identifies itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import Long from 'long';
import { serial } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { RX, TX } from '../e2e/faults.ts';
import type { NamedPty } from '../e2e/pty.ts';
import { Ledger } from './ledger.ts';
import { nextNumber, type Random } from './random.ts';
import { encodeRecord, noteFor } from './records.ts';

export interface Traffic {
  readonly random: Random;
  readonly ledger: Ledger;
  readonly pty: NamedPty;
  /** The last number of each sender: they continue over restarts. */
  readonly numbers: Map<string, number>;
}

export function newTraffic(pty: NamedPty, random: Random): Traffic {
  return { random, ledger: new Ledger(), pty, numbers: new Map() };
}

interface Callers {
  readonly count: number;
  readonly pauseMs?: number;
}

/** From all sides at once. */
export function allTraffic(
  client: Client,
  traffic: Traffic,
  over: AbortSignal,
  { logRaw, send }: { readonly logRaw: Callers; readonly send: Callers },
): Promise<unknown> {
  return Promise.all([
    device(traffic, over),
    follower(client, traffic, over),
    ...names('L', logRaw.count).map((name) => logRawCaller(name, client, traffic, over, logRaw.pauseMs)),
    ...names('T', send.count).map((name) => sender(name, client, traffic, over, send.pauseMs)),
  ]);
}

/** The device behind the line sends without a pause. */
async function device({ pty, random, numbers }: Traffic, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await pty.write(
      encodeRecord('R', nextNumber(numbers, 'R'), random, random.between(0, 9) === 0 ? 3_000 : 100),
      over,
    );
    await sleep(random.between(0, 3));
  }
}

export async function follower(client: Client, { ledger }: Traffic, over: AbortSignal): Promise<void> {
  try {
    for await (const { entries } of client.line.readLog({ liveOnly: true, follow: true }, { signal: over })) {
      for (const entry of entries ?? []) ledger.shown(entry);
    }
  } catch (error) {
    unlessKilled(error);
  }
}

/** `pauseMs`: after each answer. */
type Caller = (name: string, client: Client, traffic: Traffic, over: AbortSignal, pauseMs?: number) => Promise<void>;

export const logRawCaller: Caller = (name, client, { random, numbers, ledger }, over, pauseMs) =>
  repeated(over, pauseMs, async () => {
    const number = nextNumber(numbers, name);
    const rawData = random.bytes(random.between(0, random.between(0, 19) === 0 ? 60_000 : 300));
    const [dir, timestamp] = [number % 2 === 0 ? TX : RX, Long.fromNumber(number, true)];
    await client.serial.logRaw({ dir, timestamp, rawData, note: noteFor(name, number, rawData) });
    ledger.promised(name, number);
  });

export const sender: Caller = (name, client, { random, numbers, ledger }, over, pauseMs) =>
  repeated(over, pauseMs, async () => {
    const payload = encodeRecord(name, nextNumber(numbers, name), random, 200);
    const { status } = await client.serial.sendPacket({ payload });
    if (status === serial.StatusCode.OK) ledger.sentAnswered += 1;
  });

async function repeated(over: AbortSignal, pauseMs = 0, call: () => Promise<void>): Promise<void> {
  try {
    while (!over.aborted) {
      await call();
      if (pauseMs > 0) await sleep(pauseMs);
    }
  } catch (error) {
    unlessKilled(error);
  }
}

/** A killed daemon is UNAVAILABLE to its clients; an ended test cancels. Anything else is a failure. */
function unlessKilled(error: unknown): void {
  const text = String(error);
  if (!/UNAVAILABLE|CANCELLED|AbortError|aborted/i.test(text)) throw error;
}

export function names(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${letter}${i + 1}`);
}
