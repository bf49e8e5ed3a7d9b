/** docs/reference/cli.md: every command, argument and option, by the tree that parses them. */
import { type Command, Help, type Option } from 'commander';
import { notesOf, pathOf, runsItself, withSubcommands } from '../../src/cli/command-tree.ts';
import { program } from './commands.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';

const CONNECTION = /^Connection/;

export function cliPage(): Page {
  const all = withSubcommands(program()).slice(1);
  const holes: string[] = [];
  const shared = new Map<string, Option>();
  const chapters = all.flatMap((command) => {
    const examples = notesOf(command);
    for (const option of connection(command)) shared.set(`${option.flags} ${option.description}`, option);
    return chapter(command, examples, holes);
  });
  const text = blocks(
    MADE,
    '# Commands',
    intro,
    table(['command', ''], all.map(summary)),
    ...chapters,
    '## Connection options',
    connectionIntro,
    table(['option', ''], [...shared.values()].map(optionRow)),
  );
  return { text, holes };
}

const intro = `${code('lineside help COMMAND')}, ${code('lineside COMMAND --help')} and ${code('man lineside-COMMAND')} say the same on the box. Options belong to the command that they follow.
The package installs completion for bash, zsh and fish, which also offers ports, dictionaries and keys; elsewhere [${code('lineside completion')}](#lineside-completion) prints
the script. [Exit statuses](exit-statuses.md) have a page of their own.`;
const connectionIntro = `Without any of them a command uses the default [profile](#lineside-profile), else the socket of the service on the same machine. Commands of the line talk gRPC, those
of the reference data and delivery HTTP: so the same option is here twice where the two differ.`;

function summary(command: Command): string[] {
  const path = pathOf(command);
  const anchor = `lineside ${path}`.replaceAll(' ', '-');
  return [`[${code(path)}](#${anchor})`, plain(command.description())];
}

function chapter(command: Command, examples: string, holes: string[]): string[] {
  const path = pathOf(command);
  const help = command.createHelp();
  const options = help.visibleOptions(command).filter((option) => !isShared(option) && option.long !== '--help');
  const args = command.registeredArguments;
  if (command.description().trim() === '') holes.push(path);
  for (const one of args) if (one.description.trim() === '') holes.push(`${path} ${help.argumentTerm(one)}`);
  for (const option of command.options) if (option.description.trim() === '') holes.push(`${path} ${option.flags}`);
  const connected = connection(command).length > 0 ? 'Takes the [connection options](#connection-options).' : '';
  return [
    `### lineside ${path}`,
    command.commands.length > 0 && !runsItself(command) ? '' : code(usage(command)),
    `${plain(command.description())}. ${connected}`.trimEnd(),
    args.some(({ description }) => description !== '')
      ? table(
          ['argument', ''],
          args.map((one) => [code(help.argumentTerm(one)), plain(help.argumentDescription(one))]),
        )
      : '',
    options.length === 0 ? '' : table(['option', ''], options.map(optionRow)),
    examples === '' ? '' : `\`\`\`text\n${examples}\n\`\`\``,
  ];
}

/** Without the parents' own: `lineside log export [options]`. */
function usage(command: Command): string {
  return `lineside ${pathOf(command)} ${command.usage()}`.trimEnd();
}

function optionRow(option: Option): string[] {
  const text = new Help().optionDescription(option);
  return [code(option.flags), `${plain(text)}${option.mandatory ? '. Needed' : ''}`];
}

function connection(command: Command): readonly Option[] {
  return command.options.filter(isShared);
}

function isShared({ helpGroupHeading }: Option): boolean {
  return CONNECTION.test(helpGroupHeading ?? '');
}
