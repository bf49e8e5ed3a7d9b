/** help, version, completion, exit-status: the commands about the program itself. */
import { Argument, Command } from 'commander';
import { namedCommand, pathOf } from './command-tree.ts';
import { completionScripts } from './completion.ts';
import { exitStatusTable, usageFailure } from './failure.ts';
import type { CliIo } from './io.ts';
import { jsonLine } from './output/json.ts';

export function addAboutCommands(program: Command, io: CliIo, version: string): void {
  program
    .command('help')
    .argument('[command...]', 'words of the command, such as: log export')
    .description('print the help of a command')
    .addHelpText('after', '\nExamples:\n  lineside help\n  lineside help log export\n')
    .action((words: readonly string[]) => helpOn(program, words));
  program
    .command('version')
    .description('print the version')
    .option('--json', 'print JSON')
    .action(({ json }: { readonly json?: true }) => {
      io.stdout.write(json === true ? jsonLine({ version }) : `${version}\n`);
    });
  program
    .command('completion')
    .description('print the script by which a shell completes commands, ports, dictionaries and keys')
    .addArgument(new Argument('<shell>', 'shell that reads the script').choices(Object.keys(completionScripts)))
    .addHelpText(
      'after',
      '\nThe package installs the scripts; elsewhere:\n' +
        '  eval "$(lineside completion bash)"     in ~/.bashrc\n' +
        '  lineside completion fish | source      in ~/.config/fish/config.fish\n',
    )
    .action((shell: keyof typeof completionScripts) => {
      io.stdout.write(completionScripts[shell]);
    });
  program
    .command('exit-status')
    .description('print what the exit statuses mean')
    .addHelpText('after', `\n${exitStatusTable()}`)
    .action(() => {
      io.stdout.write(exitStatusTable());
    });
}

function helpOn(program: Command, words: readonly string[]): void {
  const found = namedCommand(program, words[0] === 'help' ? ['help', ...words] : words);
  const path = pathOf(found);
  const unknown = words.slice(path === '' ? 0 : path.split(' ').length)[0];
  if (unknown === undefined) return found.outputHelp();
  if (found.commands.length > 0) refuseUnknown(found, unknown);
  throw usageFailure(`${path} has no subcommands`, `See: lineside ${path} --help.`);
}

/** Throws commander's own error, which names the nearest command: a parent that runs itself would take the word as an argument. */
function refuseUnknown(parent: Command, word: string): void {
  const names = new Command().exitOverride().configureOutput({ outputError: () => undefined });
  for (const command of parent.commands) names.command(command.name());
  names.parse([word], { from: 'user' });
}
