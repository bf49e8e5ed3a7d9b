/** The tree of commands as commander holds it, read by all that is made from it: help, completion, man pages, reference. */
import type { EventEmitter } from 'node:events';
import type { Command } from 'commander';

/** A command and all below it, in the order of the help; those that help hides are left out. */
export function withSubcommands(command: Command): Command[] {
  return [command, ...subcommands(command).flatMap(withSubcommands)];
}

/** Without the `help` that commander adds to each group. */
export function subcommands(command: Command): Command[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .filter((one) => command.commands.includes(one));
}

/** "log export"; '' for the program. */
export function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)} ${command.name()}`.trim();
}

/** Whether a command with subcommands also does something itself, as `log` does. */
export function runsItself(command: Command): boolean {
  return (command as unknown as { readonly _actionHandler: unknown })._actionHandler !== null;
}

/** The text that help prints after the options: notes and examples. */
export function notesOf(command: Command): string {
  const parts: string[] = [];
  // The declared type leaves out that a command emits events.
  (command as unknown as EventEmitter).emit('afterHelp', {
    error: false,
    command,
    write: (text: string) => parts.push(text),
  });
  return parts.join('').trim();
}

/** The command that a command line names, as far as its words are understood, and the words after its name. */
export function splitLine(program: Command, argv: readonly string[]) {
  let [command, from] = [program, 0];
  for (let index = argv[0] === 'help' ? 1 : 0; index < argv.length; index += 1) {
    const word = argv[index] ?? '';
    const next = command.commands.find((one) => one.name() === word);
    if (next !== undefined) [command, from] = [next, index + 1];
    else if (!word.startsWith('-') || word === '--') break;
    // The value of this option is the next word.
    else if (command.options.some(({ required, long, short }) => required && (long === word || short === word)))
      index += 1;
  }
  return { command, rest: argv.slice(from) };
}
