/** The same line served by lineside and by its peers, each on a PTY of its own, with a receiver at the other end. */

import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Lineside, type LinesideOptions, startLineside } from './lineside.ts';
import { startBare, startSer2net } from './peers/peers.ts';
import { cpuSeconds, Skipped } from './processes.ts';
import { PtyDriver } from './pty-driver.ts';
import { Receiver, receiveLog, receiveSocket } from './receiver.ts';
import type { Line } from './table.ts';

export interface Contender {
  readonly name: string;
  readonly pid: number;
  readonly address: string;
  readonly driver: PtyDriver;
  readonly receiver: Receiver;
  close(): Promise<void>;
}

export interface LinesideContender extends Contender {
  readonly lineside: Lineside;
}

export async function linesideContender(
  options: LinesideOptions & { readonly baud: number; readonly subscribed: boolean },
): Promise<LinesideContender> {
  const driver = await PtyDriver.open();
  const lineside = await startLineside(options);
  await lineside.open(driver.slavePath, options.baud);
  const receiver = new Receiver();
  const stream = options.subscribed ? receiveLog(lineside.address, false, receiver) : undefined;
  await stream?.open;
  return {
    name: 'lineside',
    pid: lineside.pid,
    address: lineside.address,
    driver,
    receiver,
    lineside,
    async close() {
      await stream?.close();
      await lineside.close();
      await driver.close();
    },
  };
}

export async function bareContender(gapMs: number): Promise<Contender> {
  const driver = await PtyDriver.open();
  const peer = await startBare(driver.slavePath, gapMs);
  const receiver = new Receiver();
  const stream = receiveLog(peer.address, false, receiver);
  await stream.open;
  return {
    name: 'bare grpc-js',
    pid: peer.pid,
    address: peer.address,
    driver,
    receiver,
    async close() {
      await stream.close();
      await peer.close();
      await driver.close();
    },
  };
}

async function ser2netContender(kind: 'as shipped' | 'tuned', baud: number): Promise<Contender> {
  const driver = await PtyDriver.open();
  const peer = await startSer2net(driver.slavePath, baud, kind);
  const receiver = new Receiver();
  const socket = await peer.connect();
  receiveSocket(socket, receiver);
  return {
    name: `ser2net ${kind}`,
    pid: peer.pid,
    address: peer.address,
    driver,
    receiver,
    async close() {
      socket.destroy();
      await peer.close();
      await driver.close();
    },
  };
}

/** As shipped and tuned, or none and why. */
export async function ser2netContenders(baud: number): Promise<{ ser2net: readonly Contender[]; missing: string }> {
  try {
    return {
      ser2net: [await ser2netContender('as shipped', baud), await ser2netContender('tuned', baud)],
      missing: '',
    };
  } catch (error) {
    if (!(error instanceof Skipped)) throw error;
    return { ser2net: [], missing: error.message };
  }
}

/** The line that stands where ser2net's would. */
export function skipped(row: string, missing: string): readonly Line[] {
  return missing === '' ? [] : [{ row, lineside: '', against: missing, ratio: '', aim: '', verdict: 'SKIPPED' }];
}

/** Nothing waits to be stored and nothing was lost: what follows a run belongs to its cost. */
export async function allStored(lineside: Lineside): Promise<void> {
  await until('the log to be stored', async () => {
    const { log } = await lineside.client.status();
    if (log == null) throw new Error('no log status');
    if (Number(log.lostEntries) > 0) throw new Error(`${String(log.lostEntries)} entries were not stored`);
    return Number(log.pendingEntries) === 0;
  });
}

/** CPU seconds that the contender's process takes for what `work` does. */
export async function cpuOf<T>(
  pid: number,
  work: () => Promise<T>,
): Promise<{ readonly cpu: number; readonly result: T }> {
  const before = cpuSeconds(pid);
  const result = await work();
  return { cpu: cpuSeconds(pid) - before, result };
}
