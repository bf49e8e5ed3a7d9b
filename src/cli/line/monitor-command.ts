/** monitor: the line as a terminal. */
import type { Command } from 'commander';
import { usageFailure } from '../failure.ts';
import { secondsAsMs } from '../output/numbers.ts';
import type { Call, Shell } from '../shell.ts';
import { Monitor, type MonitorOptions } from './monitor.ts';

const longestWaitSeconds = 86_400;
/** A device that answers a command does so within this, seen from a script. */
const usualWaitMs = 1000;

export function addMonitor(program: Command, shell: Shell): void {
  const command = program
    .command('monitor')
    .description('talk to the device: keys go to the line, the line to the screen; Ctrl-] leaves')
    .option('--hex', 'show hex, both directions')
    .option('--echo', 'show what is typed')
    .addOption(enterOption(program))
    .option('--raw', 'let the line drive this terminal: colours, cursor, and whatever else it sends')
    .addOption(
      program
        .createOption('--wait <seconds>', 'input that is no terminal: go on so long after its end')
        .argParser(secondsAsMs(longestWaitSeconds))
        .default(usualWaitMs, String(usualWaitMs / 1000)),
    )
    .addHelpText(
      'after',
      '\nInput that is no terminal is sent line by line, each with the end that --enter names.\n\nExamples:\n  lineside monitor\n  lineside monitor --hex --echo --enter crlf\n  echo "ATI" | lineside monitor --wait 3\n',
    );
  shell.remote<MonitorOptions>(command, { what: 'cannot monitor the line', endsOnCtrlC: () => true, run: monitor });
}

function enterOption(program: Command) {
  return program.createOption('--enter <end>', 'what Enter sends').choices(['cr', 'lf', 'crlf']).default('cr');
}

async function monitor(call: Call<MonitorOptions>): Promise<number> {
  if (call.options.hex === true && call.options.raw === true) throw usageFailure('--hex and --raw exclude each other');
  if (call.json)
    throw usageFailure('monitor has no JSON', 'For scripts: lineside log --follow --json, and lineside send.');
  return await new Monitor(call).run();
}
