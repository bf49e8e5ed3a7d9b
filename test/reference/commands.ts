/** The command tree as commander knows it, with nothing behind the commands: to be described, and to judge command lines by. */
import { PassThrough } from 'node:stream';
import { type Command, CommanderError } from 'commander';
import { commandTree, ofNamedBox } from '../../src/cli/cli.ts';
import { runsItself, withSubcommands } from '../../src/cli/command-tree.ts';
import { CliFailure } from '../../src/cli/failure.ts';
import { addLocalCommands } from '../../src/local-commands.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';

/** The whole tree; its commands do nothing and print nothing. */
export function program(): Command {
  const print = (): void => undefined;
  const nowhere = (): PassThrough => new PassThrough();
  const io = { stdin: nowhere(), stdout: nowhere(), stderr: nowhere(), env: {}, clock: new FakeClock() };
  const tree = commandTree(
    { ...io, onSignal: () => () => undefined },
    { version: '0', local: addLocalCommands, localSocket: () => '' },
  );
  for (const command of withSubcommands(tree)) {
    if (command.commands.length === 0 || runsItself(command)) command.action(() => undefined);
    command.configureOutput({ writeOut: print, writeErr: print, getOutHelpWidth: () => 100 });
  }
  return tree;
}

/** What commander says against these words after "lineside"; undefined: nothing. */
export function faultOf(words: readonly string[]): string | undefined {
  try {
    program().parse([...ofNamedBox(words)], { from: 'user' });
    return undefined;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? undefined : error.message;
    if (error instanceof CliFailure) return error.message;
    throw error;
  }
}
