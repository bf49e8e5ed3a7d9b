/**
 * What the shell offers for the last word of a command line: subcommands, options and choices from the tree of commands,
 * and live values (ports, dictionaries, keys) from the service. The scripts of all shells ask this one command.
 */
import type { Argument, Command, Option } from 'commander';
import { completes, type LiveKind } from './command.ts';
import { splitLine, subcommands } from './command-tree.ts';
import { Fields } from './connection/answers.ts';
import { apiPath } from './connection/hub-client.ts';
import { profileNames } from './connection/profiles.ts';
import type { Call, CommonOptions, Shell } from './shell.ts';

/** The hidden command: `lineside __complete WORD...`; the last word is the one to complete. */
export const completeCommand = '__complete';

/** Where the shell offers files. */
const files = ':files';
/** A person waits for it: with the start of Node, less than a second. */
const limitMs = 700;
/** A page of records with the largest data is 26 MB at 100. */
const pageSize = 50;
/** More than a person reads through. */
const mostValues = 500;

/** A line for each offer: the value, and after a tab its description. */
export async function offersFor(program: Command, words: readonly string[], quiet: Shell): Promise<string> {
  const offers = await offersOf(program, words.slice(0, -1), words.at(-1) ?? '', quiet);
  // A value with a control cannot be typed, and would drive the terminal.
  return offers
    .filter((offer) => !/[\p{Cc}\p{Cf}]/u.test(offer.replace('\t', ' ')))
    .map((offer) => `${offer}\n`)
    .join('');
}

async function offersOf(program: Command, line: readonly string[], current: string, quiet: Shell) {
  const { command, rest: before } = splitLine(program, line);
  if (line[0] === 'help') return starting(current, subcommands(command).map(described));
  const isLiteral = before.includes('--');
  if (!isLiteral) {
    const values = await optionValues(command, before, current, quiet);
    if (values !== undefined) return values;
    if (current.startsWith('-')) return starting(current, optionsOf(command));
  }
  const given = operands(command, before);
  const argument = command.registeredArguments[given.length];
  const own = argument === undefined ? [] : await valuesOf(argument, command, before, quiet);
  const below = given.length === 0 && !isLiteral ? subcommands(command).map(described) : [];
  return starting(current, [...below, ...own]);
}

/** `--parity e` and `--parity=e`; undefined: the word is no value of an option. */
async function optionValues(command: Command, before: readonly string[], current: string, quiet: Shell) {
  const valued = optionOf(command, before.at(-1) ?? '');
  if (valued?.required === true) return starting(current, await valuesOf(valued, command, before, quiet));
  const [, flag = '', value = ''] = /^(--[a-z-]+)=(.*)$/s.exec(current) ?? [];
  const assigned = optionOf(command, flag);
  if (assigned === undefined) return undefined;
  const values = starting(value, await valuesOf(assigned, command, before, quiet));
  return values.map((one) => (one === files ? one : `${flag}=${one}`));
}

/** The shell itself chooses among files. */
function starting(current: string, offers: readonly string[]): string[] {
  return offers.filter((offer) => offer === files || offer.startsWith(current));
}

function described(command: Command): string {
  return `${command.name()}\t${command.description()}`;
}

function optionsOf(command: Command): string[] {
  const options = command.createHelp().visibleOptions(command);
  return options.flatMap(({ long, short, description }) => {
    return [long, short].flatMap((flag) => (flag === undefined ? [] : [`${flag}\t${description}`]));
  });
}

function optionOf(command: Command, flag: string): Option | undefined {
  return command.options.find(({ long, short, required, optional }) => {
    return (required || optional) && (long === flag || short === flag);
  });
}

/** The arguments of the command so far; its options are stored in it. */
function operands(command: Command, words: readonly string[]): readonly string[] {
  try {
    const { operands, unknown } = command.parseOptions([...words]);
    return [...operands, ...unknown.filter((word) => !word.startsWith('-'))];
  } catch {
    return [];
  }
}

async function valuesOf(thing: Argument | Option, command: Command, before: readonly string[], quiet: Shell) {
  if (thing.argChoices !== undefined) return thing.argChoices;
  const kind = completes.get(thing);
  if (kind !== undefined) return liveValues(kind, command, operands(command, before), quiet);
  const name = 'flags' in thing ? thing.flags : thing.name();
  return /\b(?:file|dir|path)\b/.test(name.replace(/^-\w, |--[a-z-]+/g, '')) ? [files] : [];
}

/** Of the service that the options of the command line and the environment name; none when there is no answer. */
async function liveValues(kind: LiveKind, command: Command, given: readonly string[], quiet: Shell) {
  let found: readonly string[] = [];
  const options = { ...command.opts<CommonOptions>(), timeout: limitMs };
  const run = async (call: Call<object>): Promise<number> => {
    found = await ask[kind](call, given[0] ?? '');
    return 0;
  };
  const { promise: late, resolve } = Promise.withResolvers<number>();
  const timer = setTimeout(resolve, limitMs, 0);
  await Promise.race([quiet.run({ run }, options, {}, []), late]).catch(() => 0);
  clearTimeout(timer);
  return found;
}

const ask: Readonly<Record<LiveKind, (call: Call<object>, dictionary: string) => Promise<readonly string[]>>> = {
  ports: async (call) => {
    const { devices } = await call.line(({ serial }, options) => serial.listDevices({}, options));
    return devices.map(({ portName, description }) => `${portName}${description === '' ? '' : `\t${description}`}`);
  },
  profiles: async ({ io }) => profileNames(io.env),
  dictionaries: (call) => listed(call, apiPath('dictionaries'), 'name'),
  keys: (call, dictionary) => listed(call, apiPath('dictionaries', dictionary, 'records'), 'businessKey'),
};

async function listed(call: Call<object>, path: string, field: string): Promise<readonly string[]> {
  const values: string[] = [];
  const hub = await call.hub();
  try {
    for await (const page of hub.pages(path, {}, pageSize, mostValues)) {
      values.push(...page.map((item) => new Fields(item, 'the item').text(field)));
    }
  } catch {
    // The first pages are better than nothing.
  }
  return values;
}

// The scripts that connect a shell to `lineside __complete`. They hold no command: that one knows them all.

const bash = `# bash completion for lineside; made by: lineside completion bash
_lineside() {
  local line=\${COMP_LINE:0:COMP_POINT} rest word cur offer value prefix
  local -a words=()
  COMPREPLY=()
  # bash splits words at ":" and "=" too: put them together again.
  for ((word = 0; word <= COMP_CWORD; word++)); do
    rest=\${line#"\${line%%[![:space:]]*}"}
    if [[ $rest != "$line" || $word == 0 ]]; then words+=(""); fi
    line=$rest
    if ((word == COMP_CWORD)); then
      words[-1]+=$line
    else
      words[-1]+=\${COMP_WORDS[word]}
      line=\${line#"\${COMP_WORDS[word]}"}
    fi
  done
  cur=\${words[-1]}
  # The word without the shell's quotes.
  local quote=
  case $cur in
    [\\"\\']*) quote=\${cur:0:1} cur=\${cur:1} ;;
    *) cur=\${cur//\\\\/} ;;
  esac
  # Only what follows the last ":" or "=" is replaced.
  prefix=
  if [[ -z $quote && $cur == *[:=]* ]]; then prefix=\${cur%"\${cur##*[:=]}"}; fi
  while IFS= read -r offer; do
    value=\${offer%%$'\\t'*}
    if [[ $value == :files ]]; then
      compopt -o filenames
      while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "\${cur#"$prefix"}")
      continue
    fi
    value=\${value#"$prefix"}
    [[ -n $quote ]] || printf -v value %q "$value"
    COMPREPLY+=("$value")
  done < <("\${words[0]}" __complete "\${words[@]:1:\${#words[@]}-2}" "$cur" 2>/dev/null)
}
complete -F _lineside lineside
`;

const zsh = `#compdef lineside
# zsh completion for lineside; made by: lineside completion zsh
_lineside() {
  local offer
  local -a offers
  for offer in "\${(@f)$("\${words[1]}" __complete "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}"; do
    case $offer in
      '') ;;
      :files) _files ;;
      *$'\\t'*) offers+=("\${\${offer%%$'\\t'*}//:/\\\\:}:\${offer#*$'\\t'}") ;;
      *) offers+=("\${offer//:/\\\\:}") ;;
    esac
  done
  (( $#offers )) && _describe 'lineside' offers
}
if [ "$funcstack[1]" = _lineside ]; then
  _lineside "$@"
else
  compdef _lineside lineside
fi
`;

const fish = `# fish completion for lineside; made by: lineside completion fish
function __lineside_offers
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for offer in ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
        if test "$offer" = :files
            __fish_complete_path "$current"
        else
            echo $offer
        end
    end
end
complete -c lineside -f -a '(__lineside_offers)'
`;

export const completionScripts = { bash, zsh, fish } as const;
