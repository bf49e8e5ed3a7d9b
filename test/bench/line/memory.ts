/** Resident memory: idle, and after a million entries with ten subscribers that never read. */

import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { STREAM_LOG, streamLogRequest } from '../calls.ts';
import { allStored } from '../contenders.ts';
import { serverStream } from '../grpc-lean.ts';
import { startLineside } from '../lineside.ts';
import { pidOf } from '../peers/peers.ts';
import { anonymousMegabytes, NODE, residentMegabytes, sleep, start, stop, temporaryDirectory } from '../processes.ts';
import { PtyDriver } from '../pty-driver.ts';
import { judge, type Line, type Row } from '../table.ts';

const IDLE_AIM_MB = 35;
const LOADED_AIM_MB = 60;
const BAUD = 12_000_000;
const RECORD_BYTES = 64;
const SUBSCRIBERS = 10;
const RECORDS_AT_ONCE = 50_000;
/** What the start left behind has been collected by then, or stays. */
const SETTLE_MS = 5_000;

interface Resident {
  readonly all: number;
  readonly anonymous: number;
}

const residentOf = (pid: number): Resident => ({ all: residentMegabytes(pid), anonymous: anonymousMegabytes(pid) });
const show = ({ all, anonymous }: Resident): string => `${all.toFixed(1)} MB, ${anonymous.toFixed(1)} of it anonymous`;

export const memory: Row = {
  name: 'memory',
  async run({ quick, say }) {
    const entries = quick ? 100_000 : 1_000_000;
    const node = await nodeAlone();
    const driver = await PtyDriver.open();
    const lineside = await startLineside({ serial: { rx_gap_ms: 0 } });
    await lineside.open(driver.slavePath, BAUD);
    await sleep(SETTLE_MS);
    const idle = residentOf(lineside.pid);
    const streams = Array.from({ length: SUBSCRIBERS }, () =>
      serverStream(lineside.address, STREAM_LOG, streamLogRequest(false), () => {}),
    );
    for (const stream of streams) {
      await stream.open;
      stream.pause();
    }
    const fifo = join(temporaryDirectory(), 'nobody');
    spawnSync('mkfifo', [fifo]);
    const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    let logged = 0;
    let peak = 0;
    while (logged < entries) {
      await driver.records(RECORDS_AT_ONCE, RECORD_BYTES, Number.MAX_SAFE_INTEGER, fifo);
      logged = Number((await lineside.client.status()).log?.headId ?? 0);
      const now = residentMegabytes(lineside.pid);
      peak = Math.max(peak, now);
      say(`${logged} entries: ${now.toFixed(1)} MB`);
    }
    await allStored(lineside);
    const loaded = residentOf(lineside.pid);
    closeSync(fd);
    for (const stream of streams) await stream.close();
    await lineside.close();
    await driver.close();
    const line = (row: string, figure: Resident, aim: number, more = ''): Line => ({
      row,
      lineside: `${show(figure)}${more}`,
      against: `Node alone: ${show(node)}`,
      ratio: `+${(figure.all - node.all).toFixed(1)} MB (anonymous +${(figure.anonymous - node.anonymous).toFixed(1)})`,
      aim: `at most +${aim} MB`,
      verdict: judge(figure.all - node.all <= aim),
    });
    return [
      line('resident memory, idle, port open', idle, IDLE_AIM_MB),
      line(
        `resident memory after ${logged.toLocaleString('en')} entries, ${SUBSCRIBERS} subscribers that never read`,
        loaded,
        LOADED_AIM_MB,
        ` (most on the way: ${peak.toFixed(1)} MB)`,
      ),
    ];
  },
};

async function nodeAlone(): Promise<Resident> {
  const child = start(NODE, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore' });
  await sleep(SETTLE_MS);
  const resident = residentOf(pidOf(child));
  await stop(child);
  return resident;
}
