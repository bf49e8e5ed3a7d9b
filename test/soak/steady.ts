/**
 * Steady traffic for minutes or hours: a live reader holds every entry to account, and memory and descriptors are
 * watched. One line a minute.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../e2e/daemon.ts';
import { logStatus, residentMiB, startBox } from '../e2e/faults.ts';
import type { Ledger } from './ledger.ts';
import { seeded } from './random.ts';
import { allTraffic, newTraffic } from './traffic.ts';

/** log.commit_ms as it is shipped. */
const COMMIT_MS = 1_000;
const FIRST_LOOK_MS = 5_000;
const MINUTE_MS = 60_000;
/** Memory settles within the first minutes: caches, compiled code, the tail. */
const WARM_UP_MINUTES = 5;
/** Garbage collection moves the resident size by tens of MiB; a leak of a byte an entry would pass this in hours. */
const GROWTH_MIB = 60;

export async function steadyTraffic(
  dir: string,
  minutes: number,
  seed: number,
  say: (line: string) => void,
): Promise<void> {
  say(`steady: ${minutes} minutes, SEED=${seed}`);
  const config = { log: { commit_ms: COMMIT_MS }, grpc: { listen: ['unix:grpc.sock'] } };
  const { daemon, pty } = await startBox(config, dir, false);
  pty.onData(() => {});
  const { client, pid } = daemon;
  const traffic = newTraffic(pty, seeded(seed));
  const over = new AbortController();
  const callers = { logRaw: { count: 2, pauseMs: 50 }, send: { count: 2, pauseMs: 20 } };
  const work = allTraffic(client, traffic, over.signal, callers);
  // Reported when it is awaited.
  work.catch(() => {});
  try {
    await watch(client, pid, traffic.ledger, minutes, say);
  } finally {
    over.abort();
  }
  await work;
  assert.equal(await daemon.stop(), 0);
  pty.close();
}

async function watch(
  client: Client,
  pid: number,
  ledger: Ledger,
  minutes: number,
  say: (line: string) => void,
): Promise<void> {
  // What is wrong from the start need not be waited for.
  await sleep(FIRST_LOOK_MS);
  await check(client, ledger);
  let settled: { residentMiB: number; descriptors: number } | undefined;
  for (let minute = 1; minute <= minutes; minute++) {
    await sleep(MINUTE_MS);
    await check(client, ledger);
    ledger.forget();
    const now = { residentMiB: Math.round(residentMiB(pid)), descriptors: readdirSync(`/proc/${pid}/fd`).length };
    say(`minute ${minute}: ${JSON.stringify({ ...now, ...ledger.figures })}`);
    if (minute === Math.min(WARM_UP_MINUTES, minutes)) settled = now;
    if (settled === undefined) continue;
    assert.ok(now.residentMiB < settled.residentMiB + GROWTH_MIB, `memory grew from ${settled.residentMiB} MiB`);
    assert.ok(now.descriptors <= settled.descriptors + 5, `descriptors grew from ${settled.descriptors}`);
  }
}

/** Nothing was lost, and what was shown live is what is stored. */
async function check(client: Client, ledger: Ledger): Promise<void> {
  await ledger.readOn(client);
  assert.equal(ledger.jumps, 0, 'ids were left out');
  const log = await logStatus(client);
  assert.equal(Number(log.lostEntries), 0);
  assert.equal(log.error, '');
}
