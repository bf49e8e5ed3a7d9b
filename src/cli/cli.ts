/**
 * The technician's command line: a client of the line over gRPC and of the hub over HTTP, on the box by their Unix
 * sockets, from a laptop by --host. main.ts calls runCli for every subcommand but `serve`; its own local commands are added through `local`.
 */
import { Command } from 'commander';
import { addCommands, type Entry } from './command.ts';
import { discoverCommands } from './connection/discover.ts';
import { exitStatusTable } from './failure.ts';
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
import { type LocalSocket, Shell } from './shell.ts';

/** Every command that calls a service, in the order of the help, under its headings. */
const commands: Readonly<Record<string, readonly (readonly Entry[])[]>> = {
  'The line:': [portCommands, packetCommands, monitorCommands, wireCommands],
  'The log and the state:': [logCommands, exportCommands, statusCommands],
  'Reference data:': [dictionaryCommands, recordCommands, importCommands],
  'Delivery:': [outboxCommands, subscriptionCommands, deliveryCommands, auditCommands],
  'On this network:': [discoverCommands],
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
export async function runCli(argv: readonly string[], io: CliIo, parts: CliParts): Promise<number> {
  const shell = new Shell(io, argv.includes('--json'), parts.localSocket);
  const program = buildProgram(shell, parts);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return shell.status;
  } catch (error) {
    return await shell.report(error, commandName(program, argv));
  } finally {
    await shell.release();
  }
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
    .version(parts.version, '--version', 'print the version')
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
  program.commandsGroup('On this machine:');
  parts.local?.(program, { io, warn: shell.warn, setStatus: (status) => (shell.status = status) });
  addExitStatus(program, io);
  return program;
}

/** `lineside help exit-status`, and the same without "help". */
function addExitStatus(program: Command, io: CliIo): void {
  program
    .command('exit-status')
    .description('print what the exit statuses mean')
    .addHelpText('after', `\n${exitStatusTable()}`)
    .action(() => {
      io.stdout.write(exitStatusTable());
    });
}

function commandName(program: Command, argv: readonly string[]): string {
  const names = new Set(program.commands.map((command) => command.name()));
  return argv.find((word) => names.has(word)) ?? '';
}
