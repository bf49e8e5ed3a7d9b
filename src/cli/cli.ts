/**
 * The technician's command line: a client of the line over gRPC and of the hub over HTTP, on the box by their Unix
 * sockets, from a laptop by --host. main.ts calls runCli for every subcommand but `serve`; its own local commands are added through `local`.
 */
import { PassThrough } from 'node:stream';
import { Command } from 'commander';
import { addAboutCommands } from './about.ts';
import { addCommands, type Entry } from './command.ts';
import { namedCommand, pathOf } from './command-tree.ts';
import { completeCommand, offersFor } from './completion.ts';
import { discoverCommands } from './connection/discover.ts';
import { exitStatus, exitStatusTable } from './failure.ts';
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
  if (argv[0] === completeCommand) return complete(argv.slice(1), io, parts);
  const shell = new Shell(io, argv.includes('--json'), parts.localSocket);
  const program = buildProgram(shell, parts);
  try {
    // Without a command: what there is. It is no fault to ask for that.
    await program.parseAsync(argv.length === 0 ? ['--help'] : [...argv], { from: 'user' });
    return shell.status;
  } catch (error) {
    return await shell.report(error, pathOf(namedCommand(program, argv)));
  } finally {
    await shell.release();
  }
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
  program.commandsGroup('On this machine:');
  parts.local?.(program, { io, warn: shell.warn, setStatus: (status) => (shell.status = status) });
  program.commandsGroup('This program:');
  addAboutCommands(program, io, parts.version);
  return program;
}
