/** outbox: what is still to be told to the broker, and why it waits; its dead letters are beside this file. */
import type { Command } from 'commander';
import { Fields } from './answers.ts';
import { addDeadLetters } from './dead-letter-commands.ts';
import { exitStatus } from './failure.ts';
import { apiPath } from './hub.ts';
import { jsonLine } from './json.ts';
import { outboxText } from './outbox-text.ts';
import type { HubCall, Shell } from './shell.ts';
import { type WatchOptions, watched, watchInterval } from './watch.ts';

export function addOutbox(program: Command, shell: Shell): void {
  const command = program
    .command('outbox')
    .enablePositionalOptions()
    .description('show what waits for the broker and why; `outbox dead-letters` shows what was given up')
    .option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', watchInterval)
    .addHelpText(
      'after',
      '\nExamples:\n  lineside outbox\n  lineside outbox --watch 5\n  lineside outbox --json | jq .waiting\n  lineside outbox dead-letters\n',
    );
  shell.hub<WatchOptions>(command, {
    what: 'cannot read the outbox',
    endsOnCtrlC: ({ watch }) => watch !== undefined,
    run: (call) => watched(call, (lead) => show(call, lead)),
  });
  addDeadLetters(command, shell);
}

async function show(call: HubCall<object>, lead: string): Promise<number> {
  const hub = await call.hub();
  const now = await hub.get(apiPath('admin', 'outbox'));
  const text = outboxText(new Fields(now, 'the outbox'), call.out.width);
  await call.out.write(call.json ? jsonLine(now) : lead + text);
  return exitStatus.ok;
}
