/** Both processes with nothing to do: context switches, which wake a core that could sleep. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startBoth } from '../../e2e/hub.ts';
import { judge, type Row } from '../table.ts';

const AIM_PER_S = 10;
/** By then the start is over, and what it left behind has been collected. */
const SETTLE_MS = 20_000;

export const idle: Row = {
  name: 'idle',
  async run({ quick }) {
    const seconds = quick ? 20 : 120;
    const both = await startBoth();
    const pids = [both.linePid, both.pid()];
    await sleep(SETTLE_MS);
    const before = pids.map(switchesOf);
    await sleep(seconds * 1_000);
    const [line = Number.NaN, hub = Number.NaN] = pids.map((pid, i) => (switchesOf(pid) - (before[i] ?? 0)) / seconds);
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

/** Voluntary ones: the others are the work of other processes. */
function switchesOf(pid: number): number {
  let switches = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8');
    switches += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1]);
  }
  return switches;
}
