/** Manual pages (roff) of the commands, from the tree that parses them. */
import { type Command, Help, type Option } from 'commander';
import { notesOf, pathOf, runsItself, subcommands, withSubcommands } from '../src/cli/command-tree.ts';
import { exitStatusTable } from '../src/cli/failure.ts';

export interface ManIssue {
  readonly version: string;
  /** YYYY-MM-DD */
  readonly date: string;
}

/** File name to text: lineside.1, lineside-log-export.1. */
export function commandPages(program: Command, issue: ManIssue): ReadonlyMap<string, string> {
  return new Map(withSubcommands(program).map((command) => [`${nameOf(command)}.1`, pageOf(command, issue)]));
}

function pageOf(command: Command, issue: ManIssue): string {
  const help = new Help();
  const own = subcommands(command);
  const args = command.registeredArguments.filter(({ description }) => description !== '');
  const groups = Map.groupBy(
    command.createHelp().visibleOptions(command),
    ({ helpGroupHeading = 'Options:' }) => helpGroupHeading,
  );
  const seeAlso = [command.parent, ...own].filter((one) => one !== null).map((one) => `${nameOf(one)}(1)`);
  return page(
    [nameOf(command), '1', 'lineside', issue],
    section('NAME', `${escaped(nameOf(command))} \\- ${escaped(command.description().replace(/\s+/g, ' '))}`),
    section('SYNOPSIS', bold(`lineside ${pathOf(command)}`.trim()) + escaped(` ${synopsis(command)}`)),
    section('ARGUMENTS', ...args.map((one) => entry(help.argumentTerm(one), help.argumentDescription(one)))),
    section('COMMANDS', ...own.map((one) => entry(`lineside ${pathOf(one)}`, one.description()))),
    ...[...groups].map(([heading, options]) => section(title(heading), ...options.map(optionEntry))),
    section('NOTES', literal(notes(command))),
    section(
      'EXIT STATUS',
      command.parent === null ? literal(exitStatusTable().replace(/^Exit status:\n/, '')) : statusPage,
    ),
    section('SEE ALSO', escaped([...seeAlso, 'lineside.toml(5)'].join(', '))),
  );
}

const statusPage = `See\n.BR lineside\\-exit\\-status (1).`;

/** The program's own help ends with the exit statuses, which have a section here. */
function notes(command: Command): string {
  return notesOf(command).replace(exitStatusTable().trim(), '').trim();
}

function synopsis(command: Command): string {
  return command.commands.length > 0 && !runsItself(command) ? 'COMMAND ...' : command.usage();
}

function optionEntry(option: Option): string {
  return entry(option.flags, new Help().optionDescription(option));
}

/** "Connection (default: the socket of the service on this machine):" */
function title(heading: string): string {
  return heading.replace(/:$/, '').toUpperCase();
}

function nameOf(command: Command): string {
  return `lineside ${pathOf(command)}`.trim().replaceAll(' ', '-');
}

// roff.

/** A page of sections; empty ones are left out. */
export function page(
  [name, number, manual, { version, date }]: readonly [name: string, number: string, manual: string, issue: ManIssue],
  ...sections: readonly string[]
): string {
  const head = [name.toUpperCase(), number, date, `lineside ${version}`, manual].map((part) => `"${escaped(part)}"`);
  return `.\\" Made from the sources when the package is built.\n.TH ${head.join(' ')}\n${sections.join('')}`;
}

export function section(heading: string, ...parts: readonly string[]): string {
  const filled = parts.filter((part) => part.trim() !== '');
  return filled.length === 0 ? '' : `.SH "${escaped(heading)}"\n${filled.join('\n')}\n`;
}

/** A term in bold with its meaning below. */
export function entry(term: string, meaning: string): string {
  return `.TP\n${bold(term)}\n${escaped(meaning) || '\\&'}`;
}

/** Text that keeps its lines. */
function literal(text: string): string {
  return text === '' ? '' : `.nf\n${escaped(text.trimEnd())}\n.fi`;
}

function bold(text: string): string {
  return `\\fB${escaped(text)}\\fR`;
}

/** Nothing in it is roff: a hyphen stays the one that is typed, and no line is a request. */
export function escaped(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('"', '\\(dq')
    .replaceAll('`', '\\(ga')
    .replaceAll('^', '\\(ha')
    .replaceAll('~', '\\(ti')
    .replaceAll(/^([.'])/gm, '\\&$1');
}
