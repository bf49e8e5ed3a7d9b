/** Both processes with nothing to do: context switches, which wake a core that could sleep. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startBoth } from '../../e2e/hub.ts';
import { switches } from '../processes.ts';
import { judge, type Row } from '../table.ts';

const AIM_PER_S = 10;
/** The others are the work of other processes. */
const voluntary = (pid: number): number => switches(pid).voluntary;
/** By then the start is over, and what it left behind has been collected. */
const SETTLE_MS = 20_000;

export const idle: Row = {
  name: 'idle',
  async run({ quick }) {
    const seconds = quick ? 20 : 120;
    const both = await startBoth();
    const pids = [both.linePid, both.pid()];
    await sleep(SETTLE_MS);
    const before = pids.map(voluntary);
    await sleep(seconds * 1_000);
    const [line = Number.NaN, hub = Number.NaN] = pids.map((pid, i) => (voluntary(pid) - (before[i] ?? 0)) / seconds);
    await both.stop();
    return [
      {
        row: `context switches a second, idle, no port open, ${seconds} s`,
        lineside: `${line.toFixed(1)} in the line, ${hub.toFixed(1)} in the hub`,
        against: 'none',
        ratio: '',
        aim: `at most ${AIM_PER_S} in the line`,
        verdict: judge(line <= AIM_PER_S),
      },
    ];
  },
};
