/** status: the line, its log and the service, once or again and again. */
import type { Command } from 'commander';
import { pause } from '../base/clock.ts';
import { exitStatus } from './failure.ts';
import { jsonLine, statusJson } from './json.ts';
import { secondsAsMs } from './numbers.ts';
import type { Call, Shell } from './shell.ts';
import { isHealthy, statusText } from './status-text.ts';

interface StatusOptions {
  /** Milliseconds; true: the usual interval. */
  readonly watch?: number | true;
}

const usualWatchMs = 1000;
const leastWatchMs = 100;
const longestWatchSeconds = 86_400;
/** Cursor to the top left, and everything below it cleared. */
const clearScreen = '\x1b[H\x1b[J';

export function addStatus(program: Command, shell: Shell): void {
  const command = program
    .command('status')
    .description(
      'show the port, its counters, the log and the service; status 1 when the port is lost or the log is not kept',
    )
    .option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', secondsAsMs(longestWatchSeconds))
    .addHelpText(
      'after',
      '\nExamples:\n  lineside status\n  lineside status --json | jq .log\n  lineside status --watch 5\n',
    );
  shell.remote<StatusOptions>(command, {
    what: 'cannot read the status',
    endsOnCtrlC: ({ watch }) => watch !== undefined,
    run: status,
  });
}

async function status(call: Call<StatusOptions>): Promise<number> {
  const { watch } = call.options;
  if (watch === undefined) return show(call, '');
  const everyMs = Math.max(leastWatchMs, watch === true ? usualWatchMs : watch);
  const lead = call.out.isTerminal && !call.json ? clearScreen : '';
  for (;;) {
    await show(call, lead);
    if (lead === '' && !call.json) await call.out.write('\n');
    await pause(call.io.clock, everyMs, call.stop);
    call.stop.throwIfAborted();
  }
}

async function show(call: Call<object>, lead: string): Promise<number> {
  const service = await call.service();
  const now = await service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  const healthy = isHealthy(now);
  await call.out.write(lead + (call.json ? jsonLine(statusJson(now, healthy)) : statusText(now, call.out.width)));
  return healthy ? exitStatus.ok : exitStatus.refused;
}
