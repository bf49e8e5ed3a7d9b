/** status: the line, its log and the service, once or again and again. */
import type { Command } from 'commander';
import { exitStatus } from './failure.ts';
import { jsonLine, statusJson } from './json.ts';
import { secondsAsMs } from './numbers.ts';
import type { Call, Shell } from './shell.ts';
import { isHealthy, statusText } from './status-text.ts';
import { longestWatchSeconds, type WatchOptions, watched } from './watch.ts';

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
  shell.remote<WatchOptions>(command, {
    what: 'cannot read the status',
    endsOnCtrlC: ({ watch }) => watch !== undefined,
    run: (call) => watched(call, (lead) => show(call, lead)),
  });
}

async function show(call: Call<object>, lead: string): Promise<number> {
  const service = await call.service();
  const now = await service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  const healthy = isHealthy(now);
  await call.out.write(lead + (call.json ? jsonLine(statusJson(now, healthy)) : statusText(now, call.out.width)));
  return healthy ? exitStatus.ok : exitStatus.refused;
}
