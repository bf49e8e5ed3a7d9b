/** From spawn to listening, compiled and with a warm compile cache, against Node that only says a word. */
import { once } from 'node:events';
import { environment, listening, prepare } from '../lineside.ts';
import { NODE, removeDirectory, start, stop } from '../processes.ts';
import { judge, median, type Row } from '../table.ts';

const AIM_MS = 400;
const SAY_READY = 'process.stdout.write("ready\\n"); setInterval(() => {}, 1e9)';

export const startup: Row = {
  name: 'start',
  async run({ quick }) {
    const own: number[] = [];
    const alone: number[] = [];
    // The first round fills the compile cache and does not count.
    for (let round = -1; round < (quick ? 3 : 7); round++) {
      const pair = { own: await startOwn(), alone: await startNode() };
      if (round < 0) continue;
      own.push(pair.own);
      alone.push(pair.alone);
    }
    const difference = median(own) - median(alone);
    return [
      {
        row: `start to ready, compile cache on, median of ${own.length}`,
        lineside: `${median(own).toFixed(0)} ms`,
        against: `Node alone: ${median(alone).toFixed(0)} ms`,
        ratio: `+${difference.toFixed(0)} ms`,
        aim: `at most +${AIM_MS} ms`,
        verdict: judge(difference <= AIM_MS),
      },
    ];
  },
};

async function startOwn(): Promise<number> {
  const { args, address, dir } = await prepare();
  const from = performance.now();
  const child = start(NODE, args, { stdio: 'ignore', env: environment() });
  await listening(address, child);
  const took = performance.now() - from;
  await stop(child);
  removeDirectory(dir);
  return took;
}

async function startNode(): Promise<number> {
  const from = performance.now();
  const child = start(NODE, ['-e', SAY_READY], { stdio: ['ignore', 'pipe', 'ignore'] });
  if (child.stdout === null) throw new Error('no pipe to Node');
  await once(child.stdout, 'data');
  const took = performance.now() - from;
  await stop(child);
  return took;
}
