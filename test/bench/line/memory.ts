/** Resident memory: idle, and after a million entries with ten subscribers that never read. */
import { setTimeout as sleep } from 'node:timers/promises';
import { releaseAfterStartMs } from '../../../src/shared/base/memory.ts';
import { streamEntries } from '../grpc-lean.ts';
import { memoryLine, nodeAlone, residentOf } from '../processes.ts';
import { allStored, startLineside } from '../stations.ts';
import type { Row } from '../table.ts';

const IDLE_AIM_MB = 40;
const LOADED_AIM_MB = 60;
const BAUD = 12_000_000;
const RECORD_BYTES = 64;
const SUBSCRIBERS = 10;
const RECORDS_AT_ONCE = 50_000;
/** What the start left behind has been collected by then, or stays. */
const SETTLE_MS = releaseAfterStartMs + 5_000;

export const memory: Row = {
  name: 'memory',
  whyMissed:
    'Nearly half are pages of the programs of Node, gRPC, TLS and SQLite, which Node alone does not touch and the ' +
    'kernel drops when memory is short. The rest are the heaps of two threads. The heap of new objects is already ' +
    'limited, which costs a third more processor time for reading the log.',
  async run({ quick, say }) {
    const entries = quick ? 100_000 : 1_000_000;
    const node = await nodeAlone(SETTLE_MS, process.env);
    const { daemon, driver, pid, address, close } = await startLineside(BAUD, { gapMs: 0 });
    await sleep(SETTLE_MS);
    const idle = residentOf(pid);
    const streams = Array.from({ length: SUBSCRIBERS }, () => streamEntries(address, false, () => {}));
    for (const stream of streams) {
      await stream.open;
      stream.pause();
    }
    let logged = 0;
    let peak = 0;
    while (logged < entries) {
      await driver.records(RECORDS_AT_ONCE, RECORD_BYTES, Number.MAX_SAFE_INTEGER);
      logged = Number((await daemon.client.line.getStatus({})).log?.headId ?? 0);
      const now = residentOf(pid).all;
      peak = Math.max(peak, now);
      say(`${logged} entries: ${now.toFixed(1)} MB`);
    }
    await allStored(daemon);
    const loaded = residentOf(pid);
    for (const stream of streams) await stream.close();
    await close();
    const row = `resident memory after ${logged.toLocaleString('en')} entries, ${SUBSCRIBERS} subscribers that never read`;
    const note = ` (most on the way: ${peak.toFixed(1)} MB)`;
    return [
      memoryLine('resident memory, idle, port open', idle, node, IDLE_AIM_MB),
      memoryLine(row, loaded, node, LOADED_AIM_MB, note),
    ];
  },
};
