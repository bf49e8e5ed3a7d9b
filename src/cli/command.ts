/**
 * A command described as data: its place in the tree, arguments, options, examples and what it does. Parsing, the help and
 * the reference come from the entry; a new command is one more entry in a list.
 */
import { Argument, type Command, Option } from 'commander';
import { type Face, hubFace, lineFace } from './connection/endpoint.ts';
import { CliFailure, usageFailure } from './failure.ts';
import { colourHelp, colourTimes } from './output/colour.ts';
import { secondsAsMs } from './output/numbers.ts';
import type { Call, CommonOptions, Runnable, Shell } from './shell.ts';

/** The field of a request to the hub that an argument or option fills: of the query for GET, else of the body. */
export interface Filling {
  readonly field?: string;
  /** What is sent for the given value; it is sent as it is otherwise. */
  readonly value?: (given: never, call: Call<object>) => unknown;
}

/** Values that the shell's completion looks up: of the service, or of the user's profiles. */
export type LiveKind = 'ports' | 'dictionaries' | 'keys' | 'profiles';

/** By argument or option of the tree. */
export const completes = new WeakMap<Argument | Option, LiveKind>();

export interface ArgumentSpec extends Filling {
  /** '<name>', or '[name]' when it may be missing. */
  readonly name: string;
  readonly help: string;
  readonly parse?: (text: string) => string;
  readonly usual?: string;
  readonly completes?: LiveKind;
}

interface OptionParts extends Filling {
  readonly parse?: (text: string, before: never) => unknown;
  readonly choices?: readonly string[];
  /** The value when the option is not given; `usualText` is how the help writes it. */
  readonly usual?: string | number;
  readonly usualText?: string;
  readonly required?: true;
  readonly completes?: LiveKind;
  /** Heading in the help, when it is not "Options:". */
  readonly group?: string;
}

interface OptionSpec extends OptionParts {
  readonly flags: string;
  readonly help: string;
}

export function option<const F extends string, const P extends OptionParts>(
  flags: F,
  help: string,
  parts?: P,
): { readonly flags: F; readonly help: string } & P {
  return { flags, help, ...parts } as { readonly flags: F; readonly help: string } & P;
}

/** What commander makes of a list of options: `--valid-from <time>` is `validFrom?: string`. */
export type Given<All extends readonly OptionSpec[]> = {
  readonly [O in All[number] as O extends Always ? KeyOf<O['flags']> : never]: ValueOf<O>;
} & { readonly [O in All[number] as O extends Always ? never : KeyOf<O['flags']>]?: ValueOf<O> };

type Always = { readonly usual: string | number } | { readonly required: true };
type LongName<F extends string> = F extends `${string}--${infer Name} ${string}`
  ? Name
  : F extends `${string}--${infer Name}`
    ? Name
    : never;
type KeyOf<F extends string> = LongName<F> extends `no-${infer Name}` ? Camel<Name> : Camel<LongName<F>>;
type Camel<T extends string> = T extends `${infer Head}-${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : T;
type ValueOf<O extends OptionSpec> =
  | (O extends { readonly parse: (text: string, before: never) => infer Value }
      ? Value
      : O extends { readonly choices: readonly (infer Choice)[] }
        ? Choice
        : O['flags'] extends `${string}<${string}`
          ? string
          : O['flags'] extends `--no-${string}`
            ? false
            : true)
  | (O['flags'] extends `${string}[${string}` ? true : never);

export interface Entry extends Omit<Runnable, 'run'> {
  /** The words of the command: 'dict draft show'. Those of its parents are entries before it. */
  readonly command: string;
  readonly help: string;
  readonly arguments?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  /** Words after `--`, as they are: '<command...>'. */
  readonly rest?: { readonly name: string; readonly help: string };
  /** Printed before the examples. */
  readonly notes?: string;
  readonly examples?: readonly string[];
  /** In the help of its parent this and the following commands stand under it. */
  readonly heading?: string;
  /** Runs when its parent is given alone. */
  readonly isDefault?: true;
  /** The service that it calls, or the seconds that a command without a service may take; here: it waits for nothing. */
  readonly on?: 'line' | 'hub' | 'here' | { readonly aloneSeconds: number };
  /** --timeout when it is not given. */
  readonly timeoutSeconds?: number;
  /** Parts of its output are coloured. */
  readonly colours?: true;
  /** Missing: a command that only has subcommands. */
  readonly run?: Runnable['run'];
}

/** Seconds without an answer after which a call is abandoned. The service itself answers, or refuses, well within that. */
const usualTimeoutSeconds = 10;
const longestTimeoutSeconds = 86_400;

export function addCommands(program: Command, shell: Shell, entries: readonly Entry[]): void {
  for (const entry of entries) addCommand(program, shell, entry);
}

function addCommand(program: Command, shell: Shell, entry: Entry): void {
  const words = entry.command.split(' ');
  const name = words.pop() ?? '';
  const parent = words.reduce((at, word) => at.commands.find((one) => one.name() === word) ?? at, program);
  if (entry.heading !== undefined) parent.commandsGroup(entry.heading);
  const command = parent
    .command(name, { isDefault: entry.isDefault === true })
    // Options belong to the command they follow: `log export --dir rx` is not `log --dir rx`.
    .enablePositionalOptions()
    .description(entry.help)
    .addHelpText('after', helpAfter(entry));
  for (const spec of entry.arguments ?? []) command.addArgument(argumentOf(spec));
  for (const spec of entry.options ?? []) command.addOption(optionOf(spec));
  const { run, rest } = entry;
  if (rest !== undefined) command.addArgument(new Argument(rest.name, rest.help));
  if (run === undefined) return;
  addCommonOptions(command, entry);
  command.action(async () => {
    const processed = command.processedArgs as readonly (string | undefined)[];
    const words = rest === undefined ? [] : (command.processedArgs.at(-1) as readonly string[]);
    const args = (entry.arguments ?? []).flatMap(({ name }, at) => {
      const given = processed[at];
      return given === undefined ? [] : [[bareName(name), given] as const];
    });
    shell.status = await shell.run({ ...entry, run }, command.opts<CommonOptions>(), Object.fromEntries(args), words);
  });
}

function helpAfter({ notes, examples = [] }: Entry): string {
  const listed = examples.map((example) => `  ${example}\n`).join('');
  const parts = [notes, listed === '' ? undefined : `Example${examples.length === 1 ? '' : 's'}:\n${listed}`];
  return parts.map((part) => (part === undefined ? '' : `\n${part}${part.endsWith('\n') ? '' : '\n'}`)).join('');
}

function argumentOf({ name, help, parse, usual, completes: kind }: ArgumentSpec): Argument {
  const argument = new Argument(name, help);
  if (kind !== undefined) completes.set(argument, kind);
  if (parse !== undefined) argument.argParser((text) => named(name, () => parse(text)));
  return usual === undefined ? argument : argument.default(usual, usual);
}

function optionOf({
  flags,
  help,
  parse,
  choices,
  usual,
  usualText,
  required,
  group,
  completes: kind,
}: OptionSpec): Option {
  const made = new Option(flags, help);
  if (kind !== undefined) completes.set(made, kind);
  if (choices !== undefined) made.choices(choices);
  if (parse !== undefined) {
    const flag = flags.replace(/^-\w, /, '').split(' ')[0] ?? '';
    made.argParser((text, before) => named(flag, () => parse(text, before as never)));
  }
  if (usual !== undefined) made.default(usual, usualText);
  if (required === true) made.makeOptionMandatory();
  return group === undefined ? made : made.helpGroup(group);
}

/** A refused value is reported with the name of its option or argument. */
function named<T>(name: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof CliFailure ? usageFailure(`${name}: ${error.message}`, error.next) : error;
  }
}

export function bareName(name: string): string {
  return name.replace(/[<>[\]]/g, '');
}

// The options that every command takes.

const colourOption = option('--color <when>', colourHelp, { choices: colourTimes });

/** Whom a remote service is, and how it is spoken to; a profile keeps them too. */
export const trustOptions = [
  option('--tls', 'use TLS on loopback too'),
  option('--plaintext', 'no TLS: only where the service has insecure = true'),
  option('--ca <file>', 'certificate of the authority to trust (LINESIDE_CA)'),
  option('--fingerprint <sha256>', 'trust the box whose authority has it, by any name (LINESIDE_FINGERPRINT)'),
  option('--token-file <file>', 'file that holds the token (LINESIDE_TOKEN_FILE)'),
  option('--cert <file>', 'client certificate, with --key'),
  option('--key <file>', 'key of the client certificate'),
  option('--server-name <name>', 'name in the certificate of the service, when it is not the host'),
] as const;

function addCommonOptions(command: Command, entry: Entry): void {
  const { on = 'line', timeoutSeconds = usualTimeoutSeconds } = entry;
  command.optionsGroup('Output:').option('--json', 'print JSON for scripts; errors too');
  if (entry.colours === true) command.addOption(optionOf(colourOption));
  if (entry.pages !== undefined) command.option('--no-pager', 'on a terminal: do not show it by PAGER (less)');
  if (on === 'here') return;
  if (typeof on === 'object') return addTimeout(command, 'ask for so long', on.aloneSeconds);
  command.optionsGroup('Connection (default: the default profile, else the service on this machine):');
  for (const spec of [
    option('--profile <name>', 'box by the name of its profile: see lineside profile (LINESIDE_PROFILE)', {
      completes: 'profiles',
    }),
    option('--socket <path>', `Unix socket of the service (${faceOf(on).socketVariable})`),
    option('--config <file>', 'configuration of the service on this machine: its socket is used'),
    option('--host <host[:port]>', hostHelp(faceOf(on))),
    ...trustOptions,
  ])
    command.addOption(optionOf(spec));
  addTimeout(command, 'abandon a call after so long', timeoutSeconds);
}

function addTimeout(command: Command, help: string, seconds: number): void {
  const parse = secondsAsMs(longestTimeoutSeconds);
  command.addOption(
    optionOf({ flags: '--timeout <seconds>', help, parse, usual: seconds * 1000, usualText: String(seconds) }),
  );
}

function faceOf(on: 'line' | 'hub'): Face {
  return on === 'line' ? lineFace : hubFace;
}

function hostHelp(face: Face): string {
  const variable = face === lineFace ? 'LINESIDE_HOST' : "LINESIDE_HOST, whose port is the line's";
  const ports = face === lineFace ? String(face.defaultPort) : `${face.securePort} (${face.defaultPort} without TLS)`;
  return `service on another machine (${variable}); port ${ports}; TLS unless it is loopback`;
}
