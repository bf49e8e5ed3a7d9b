/** From spawn to ready, compiled and with a warm compile cache, against Node that only says a word. */
import { join } from 'node:path';
import { environment, MAIN, NODE, ROOT, startProcess, temporaryDirectory, writeConfig } from '../../e2e/daemon.ts';
import { stop } from '../processes.ts';
import { lineConfig } from '../stations.ts';
import { inTurns, median, more, type Row } from '../table.ts';

const AIM_MS = 400;
const SAY_READY = 'process.stderr.write("ready\\n"); setInterval(() => {}, 1e9)';

export const startup: Row = {
  name: 'start',
  async run({ quick }) {
    // The first round fills the compile cache.
    const { own, alone } = await inTurns({ rounds: quick ? 3 : 7, warmUp: true }, { own: startOwn, alone: startNode });
    const difference = median(own) - median(alone);
    return [
      {
        row: `start to ready, compile cache on, median of ${own.length}`,
        lineside: `${median(own).toFixed(0)} ms`,
        against: `Node alone: ${median(alone).toFixed(0)} ms`,
        ...more(difference, 0, 'ms', `at most +${AIM_MS} ms`, difference <= AIM_MS),
      },
    ];
  },
};

/** The service logs that it is ready when it listens. */
function startOwn(): Promise<number> {
  const config = writeConfig(temporaryDirectory(), lineConfig());
  const env = environment({ NODE_COMPILE_CACHE: join(ROOT, '.cache/compile') });
  return msUntil(/ info ready /, [MAIN, 'serve', '--role', 'line', '--config', config], env);
}

const startNode = (): Promise<number> => msUntil(/ready/, ['-e', SAY_READY], process.env);

async function msUntil(ready: RegExp, args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const from = performance.now();
  const child = startProcess(NODE, args, env);
  let said = '';
  for await (const text of child.stderr ?? []) {
    said += String(text);
    if (ready.test(said)) break;
  }
  const took = performance.now() - from;
  await stop(child);
  return took;
}
