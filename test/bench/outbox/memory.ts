/** Resident memory of the hub with nothing to do, with and without a broker, against Node alone under the same flags. */
import { setTimeout as sleep } from 'node:timers/promises';
import { releaseAfterStartMs } from '../../../src/shared/base/memory.ts';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { outbox } from '../../e2e/hub-support.ts';
import { rowsBroker } from '../broker.ts';
import { memoryLine, nodeAlone, type Resident, residentOf } from '../processes.ts';
import type { Row } from '../table.ts';
import { type RowsHub, withHub } from './hub.ts';

const AIM_MB = 45;
/** What the start left behind has been collected by then, or stays. */
const SETTLE_MS = releaseAfterStartMs + 5_000;

export const memory: Row = {
  name: 'memory',
  whyMissed:
    'As of the memory of the line: pages of programs that Node alone does not touch, and the heap. The connection ' +
    "to the broker costs librdkafka's threads and buffers, 6 MB.",
  async run() {
    const node = await nodeAlone(SETTLE_MS);
    const plain = await withHub({}, settled);
    const broker = await rowsBroker();
    const connected = await withHub({ bootstrap: broker.plain }, async (hub) => {
      await until('the connection to the broker', async () => (await outbox(hub.api)).broker.connected);
      return settled(hub);
    });
    await broker.kill();
    return [
      memoryLine('resident memory of the hub, idle, no broker configured', plain, node, AIM_MB),
      memoryLine('the same, connected to a broker, topics created', connected, node, AIM_MB),
    ];
  },
};

async function settled(hub: RowsHub): Promise<Resident> {
  await sleep(SETTLE_MS);
  return residentOf(hub.pid());
}
