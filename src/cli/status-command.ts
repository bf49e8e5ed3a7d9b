/** status: the line, its log and the service, once or again and again. */
import type { Command } from 'commander';
import { exitStatus } from './failure.ts';
import { hostRows } from './host-text.ts';
import { apiPath } from './hub.ts';
import { type JsonObject, jsonLine, statusJson } from './json.ts';
import { systemZone } from './numbers.ts';
import type { Call, Shell } from './shell.ts';
import { isHealthy, statusText } from './status-text.ts';
import { type WatchOptions, watched, watchInterval } from './watch.ts';

export function addStatus(program: Command, shell: Shell): void {
  const command = program
    .command('status')
    .description(
      'show the port, its counters, the log, the service and the machine; status 1 when the port is lost or the log is not kept',
    )
    .option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', watchInterval)
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

/**
 * The hub is asked beside the line, and may be down, busy or another version: the status does without it then. Part of
 * --timeout that it may take: 1.5 s by default.
 */
const hubPart = 0.15;

async function hostFacts(call: Call<object>): Promise<JsonObject | undefined> {
  try {
    const hub = await call.hubBeside(call.timeoutMs * hubPart);
    const facts = await hub?.get(apiPath('admin', 'host'));
    // What cannot be shown is not taken.
    if (facts !== undefined) hostRows(facts);
    return facts;
  } catch {
    call.stop.throwIfAborted();
    return undefined;
  }
}

async function show(call: Call<object>, lead: string): Promise<number> {
  const service = await call.service();
  const asked = service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  const [now, host] = await Promise.all([asked, hostFacts(call)]);
  const healthy = isHealthy(now);
  const json = (): string => jsonLine({ ...statusJson(now, healthy), host: host ?? null });
  const rows = host === undefined ? [] : hostRows(host);
  await call.out.write(lead + (call.json ? json() : statusText(now, call.out.width, systemZone, rows)));
  return healthy ? exitStatus.ok : exitStatus.refused;
}
