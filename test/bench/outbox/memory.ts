/** Resident memory of the hub with nothing to do, with and without a broker, against Node alone under the same flags. */

import { until } from '../../../src/shared/base/wait.fixture.ts';
import { environment } from '../lineside.ts';
import { pidOf } from '../peers/peers.ts';
import { anonymousMegabytes, NODE, residentMegabytes, sleep, start, stop } from '../processes.ts';
import { judge, type Line, type Row } from '../table.ts';
import { startBroker } from './broker.ts';
import { type Hub, startHub } from './hub.ts';

const AIM_MB = 60;
/** What the start left behind has been collected by then, or stays. */
const SETTLE_MS = 10_000;

interface Resident {
  readonly all: number;
  readonly anonymous: number;
}

const residentOf = (pid: number): Resident => ({ all: residentMegabytes(pid), anonymous: anonymousMegabytes(pid) });
const show = ({ all, anonymous }: Resident): string => `${all.toFixed(1)} MB, ${anonymous.toFixed(1)} of it anonymous`;

export const memory: Row = {
  name: 'memory',
  async run() {
    const node = await nodeAlone();
    const plain = await settled(await startHub());
    const lines = [line('resident memory of the hub, idle, no broker configured', plain, node)];
    const broker = await startBroker();
    const hub = await startHub({ bootstrap: broker.bootstrap });
    await until('the connection to the broker', async () => (await hub.outbox()).broker.connected);
    const connected = await settled(hub);
    await broker.close();
    return [...lines, line('the same, connected to a broker, topics created', connected, node)];
  },
};

async function settled(hub: Hub): Promise<Resident> {
  await sleep(SETTLE_MS);
  const resident = residentOf(hub.pid);
  await hub.close();
  return resident;
}

async function nodeAlone(): Promise<Resident> {
  const child = start(NODE, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore', env: environment() });
  await sleep(SETTLE_MS);
  const resident = residentOf(pidOf(child));
  await stop(child);
  return resident;
}

function line(row: string, figure: Resident, node: Resident): Line {
  const more = figure.all - node.all;
  return {
    row,
    lineside: show(figure),
    against: `Node alone, same flags: ${show(node)}`,
    ratio: `+${more.toFixed(1)} MB (anonymous +${(figure.anonymous - node.anonymous).toFixed(1)})`,
    aim: `at most +${AIM_MB} MB`,
    verdict: judge(more <= AIM_MB),
  };
}
