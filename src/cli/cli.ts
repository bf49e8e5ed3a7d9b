/**
 * The technician's command line: a client of the line over gRPC and of the hub over HTTP, on the box by their Unix
 * sockets, from a laptop by --host. main.ts calls runCli for every subcommand but `serve`; its own local commands are added through `local`.
 */
import { PassThrough } from 'node:stream';
import { Argument, Command } from 'commander';
import { addCommands, type Entry, trustOptions } from './command.ts';
import { pathOf, splitLine } from './command-tree.ts';
import { completeCommand, completionScripts, offersFor } from './completion.ts';
import { discoverCommands } from './connection/discover.ts';
import { profileCommands } from './connection/profile-commands.ts';
import { exitStatus, exitStatusTable, usageFailure } from './failure.ts';
import { fleetCommands } from './fleet/fleet.ts';
import { administrationCommands } from './hub/administration.ts';
import { deliveryCommands } from './hub/deliveries.ts';
import { importCommands } from './hub/import.ts';
import { auditCommands, outboxCommands } from './hub/outbox.ts';
import { dictionaryCommands, recordCommands } from './hub/refdata.ts';
import { subscriptionCommands } from './hub/subscriptions.ts';
import type { CliIo } from './io.ts';
import { exportCommands } from './line/export.ts';
import { logCommands } from './line/log.ts';
import { monitorCommands } from './line/monitor.ts';
import { packetCommands } from './line/packets.ts';
import { portCommands, wireCommands } from './line/port.ts';
import { statusCommands } from './line/status.ts';
import { jsonLine } from './output/json.ts';
import { attachCommands } from './port/attach.ts';
import { rfc2217Commands } from './port/rfc2217-command.ts';
import { type LocalSocket, Shell } from './shell.ts';

/** Every command that calls a service, in the order of the help, under its headings. */
const commands: Readonly<Record<string, readonly (readonly Entry[])[]>> = {
  'The line:': [portCommands, packetCommands, monitorCommands, attachCommands, rfc2217Commands, wireCommands],
  'The log and the state:': [logCommands, exportCommands, statusCommands],
  'Reference data:': [dictionaryCommands, recordCommands, importCommands],
  'Delivery:': [outboxCommands, subscriptionCommands, deliveryCommands, auditCommands],
  'Boxes:': [discoverCommands, profileCommands, administrationCommands],
};

/** What a local command (token, config check) may use. Errors it throws are reported as those of any command. */
export interface LocalShell {
  readonly io: CliIo;
  /** One warning on standard error; the command continues. */
  readonly warn: (warning: string) => void;
  /** The exit status, 0 unless set. */
  setStatus(status: number): void;
}

export interface CliParts {
  readonly localSocket: LocalSocket;
  readonly version: string;
  /** Adds the commands that need no service. */
  readonly local?: (program: Command, shell: LocalShell) => void;
}

/** Runs one command line (without the program's name) and answers its exit status; never throws, never exits. */
export async function runCli(given: readonly string[], io: CliIo, parts: CliParts): Promise<number> {
  if (given[0] === completeCommand) return complete(given.slice(1), io, parts);
  const argv = ofNamedBox(given);
  const shell = new Shell(io, argv.includes('--json'), parts.localSocket);
  const program = buildProgram(shell, parts);
  try {
    // Without a command: what there is. It is no fault to ask for that.
    await program.parseAsync(argv.length === 0 ? ['--help'] : [...argv], { from: 'user' });
    return shell.status;
  } catch (error) {
    return await shell.report(error, pathOf(splitLine(program, argv).command));
  } finally {
    await shell.release();
  }
}

/** Words of root's own commands that stand below `box` too. */
const boxWords = new Set(administrationCommands.map(({ command }) => command.split(' ')[1]));

/** Connection options, and whether a value follows: they may stand before the command too. */
const leading = new Map(
  ['--profile <name>', '--host <host>', ...trustOptions.map(({ flags }) => flags)].map((flags) => {
    const [flag = '', value] = flags.split(' ');
    return [flag, value !== undefined];
  }),
);

/** `--profile press-04 update status` is `box update status --profile press-04`: a box may be named first, and then "box" left out. */
export function ofNamedBox(argv: readonly string[]): readonly string[] {
  let from = 0;
  for (let word = argv[0] ?? ''; leading.has(word.replace(/=.*/, '')); word = argv[from] ?? '')
    from += leading.get(word) === true ? 2 : 1;
  const words = argv.slice(from);
  const end = words.indexOf('--');
  const own = end === -1 ? words : words.slice(0, end);
  const line = [...own, ...argv.slice(0, from), ...words.slice(own.length)];
  const isOfBox =
    boxWords.has(own[0]) && [...argv.slice(0, from), ...own].some((word) => /^--(profile|host)(=|$)/.test(word));
  return isOfBox ? ['box', ...line] : line;
}

/** Answers a shell's completion. It prints no error: that would stand in the middle of the command line. */
async function complete(words: readonly string[], io: CliIo, parts: CliParts): Promise<number> {
  const quiet = new Shell({ ...io, stderr: new PassThrough().resume() }, false, parts.localSocket);
  try {
    await quiet.out.write(await offersFor(buildProgram(quiet, parts), words, quiet));
  } catch {
    // Nothing is offered.
  } finally {
    await quiet.release();
  }
  return exitStatus.ok;
}

/** Every command with its options and help, not run: the reference is made of it. */
export function commandTree(io: CliIo, parts: CliParts): Command {
  return buildProgram(new Shell(io, false, parts.localSocket), parts);
}

const firstSteps = `
First steps:
  lineside devices                        which ports are there?
  lineside open /dev/ttyUSB0 9600,8N1     from now on every byte is kept
  lineside log --follow                   what comes and goes
  lineside status                         how it is
  lineside COMMAND --help                 everything about one command, with examples
`;

function buildProgram(shell: Shell, parts: CliParts): Command {
  const { io } = shell;
  const program = new Command('lineside')
    .description(
      'The box beside the line: one serial port with a durable log of every byte, and the reference data of the site.',
    )
    .version(parts.version, '-V, --version', 'print the version')
    // Options belong to the command they follow: `log export --dir rx` is not `log --dir rx`.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Reported once, by Shell.report, in the one form that errors have here.
      outputError: () => undefined,
      getOutHelpWidth: () => io.stdout.columns ?? 80,
      getErrHelpWidth: () => io.stderr.columns ?? 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addHelpText('after', `${firstSteps}\n${exitStatusTable()}`);
  for (const [heading, groups] of Object.entries(commands)) {
    program.commandsGroup(heading);
    for (const group of groups) addCommands(program, shell, group);
  }
  addCommands(
    program,
    shell,
    fleetCommands((argv, its) => runCli(argv, its, parts)),
  );
  program.commandsGroup('On this machine:');
  parts.local?.(program, { io, warn: shell.warn, setStatus: (status) => (shell.status = status) });
  program.commandsGroup('This program:');
  addAboutCommands(program, io, parts.version);
  return program;
}

// help, version, completion, exit-status: the commands about the program itself.

function addAboutCommands(program: Command, io: CliIo, version: string): void {
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
  const { command: found } = splitLine(program, words[0] === 'help' ? ['help', ...words] : words);
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
