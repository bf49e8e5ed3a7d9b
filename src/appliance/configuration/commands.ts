/** The commands about the configuration file: check, show, change, undo. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import type { LocalShell } from '../../cli/cli.ts';
import { CliFailure, exitStatus } from '../../cli/failure.ts';
import { wholeText } from '../../cli/input.ts';
import { changeLines, faultLine } from '../../cli/output/box-reports.ts';
import { jsonLine } from '../../cli/output/json.ts';
import { configSchema } from '../../shared/config/config.ts';
import { describeConfig, describeCredentials, keyLine, load } from '../../shared/config/load.ts';
import { unitPattern } from '../../shared/config/values.ts';
import { configFileOf } from '../backup/data-paths.ts';
import { etc } from '../box.ts';
import {
  type ChangeOptions,
  type ConfigurationChange,
  changeConfiguration,
  MAX_CONFIG_BYTES,
  readConfiguration,
  undoChange,
} from './configuration-file.ts';

const configHelp = 'configuration of the service (default /etc/lineside/lineside.toml)';

export function addConfigCommands(program: Command, shell: LocalShell): void {
  const config = program.command('config').description('the configuration file of the service');
  config
    .command('check')
    .argument('[file]', 'file to check (default: that of --config)')
    .description('check the configuration file and print every key with its value; exit status 2 on a fault')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside config check\n  lineside config check --changed\n' +
        '  lineside config check new.toml\n',
    )
    .option('--config <file>', configHelp)
    .option('--changed', 'print only the keys that differ from the default')
    .option('--json', 'print JSON for scripts')
    .action((file: string | undefined, options: CheckOptions) => checkConfig(shell, file ?? options.config, options));
  addChangeCommands(config, shell);
  config
    .command('schema')
    .description('print the JSON Schema of the configuration file, for editors and checks elsewhere')
    .action(() => {
      const schema = {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        title: 'lineside.toml',
        ...configSchema,
      };
      shell.io.stdout.write(`${JSON.stringify(schema, withUnits, 2)}\n`);
    });
}

/** A number with a unit in its name may be written with any unit of its kind. */
function withUnits(name: string, value: unknown): unknown {
  const pattern = unitPattern(name);
  if (pattern === undefined || typeof value !== 'object' || value === null || !('type' in value)) return value;
  const { type, minimum, maximum, ...rest } = value as Readonly<Record<string, unknown>>;
  if (type !== 'integer') return value;
  return {
    ...rest,
    anyOf: [
      { type, minimum, maximum },
      { type: 'string', pattern },
    ],
  };
}

interface CheckOptions {
  readonly config?: string;
  readonly changed?: true;
  readonly json?: true;
}

function checkConfig({ io, warn }: LocalShell, named: string | undefined, { changed, json }: CheckOptions): void {
  const loaded = load(named, process.env, 'check');
  for (const warning of loaded.warnings) warn(warning);
  const file = loaded.file ?? null;
  const shown = describeConfig(loaded).filter(({ isDefault }) => changed !== true || !isDefault);
  const unchecked = describeCredentials(loaded);
  if (json === true) {
    const keys = shown.map(({ path, value, source }) => ({ path, value, source }));
    io.stdout.write(jsonLine({ file, keys, unchecked }));
    return;
  }
  const lines = shown.map(keyLine);
  const notes = unchecked.map((note) => `# not checked: ${note}`);
  const name = file ?? 'no configuration file: environment and defaults';
  for (const line of [`# ${name}`, ...lines, ...notes, '# OK']) io.stdout.write(`${line}\n`);
}

// Reading the file and changing it, as the console does.

interface ShowOptions {
  readonly config?: string;
  readonly json?: true;
}

interface ChangeFlags extends ShowOptions {
  readonly dryRun?: true;
  readonly ifHash?: string;
  readonly keepPaths?: true;
  readonly reload: boolean;
}

function addChangeCommands(config: Command, shell: LocalShell): void {
  const { io } = shell;
  config
    .command('show')
    .description('print the configuration file; what may be a secret is replaced by <hidden N>')
    .option('--config <file>', configHelp)
    .option('--json', 'print JSON for scripts')
    .action((options: ShowOptions) => {
      const shown = readConfiguration(configFileOf(options.config, io.env));
      io.stdout.write(options.json === true ? jsonLine(shown) : shown.text);
    });
  const changing = (command: Command): Command =>
    command
      .option('--config <file>', configHelp)
      .option('--dry-run', 'check, and print the effect; change nothing')
      .option('--if-hash <hash>', 'only if the file still has this hash ("lineside config show --json")')
      .option('--keep-paths', 'refuse a change of keys that name files, directories or sockets')
      .option('--no-reload', 'do not reload the service')
      .option('--json', 'print JSON for scripts');
  changing(config.command('change').argument('<file>', 'the new text; - for standard input'))
    .description('check a new text, put it in place of the configuration file, and reload the service')
    .addHelpText(
      'after',
      '\nThe old file is kept as lineside.toml.previous ("lineside config undo"). <hidden N> of "lineside config show" stays\nwhat it is in the file.\n\nExamples:\n  sudo lineside config change --dry-run new.toml\n  sudo lineside config change new.toml\n',
    )
    .action(async (file: string, flags: ChangeFlags) => {
      const stop = new AbortController().signal;
      const limit = `${MAX_CONFIG_BYTES} bytes`;
      const refuse = (why: string): CliFailure => new CliFailure('refused', 'TOO_LARGE', `${file}: ${why}`);
      const text = await wholeText({ io, stop }, file, MAX_CONFIG_BYTES, limit, refuse);
      report(shell, flags, (named, options) => changeConfiguration(named, text, options));
    });
  changing(config.command('undo'))
    .description('put the configuration file of before the last change back, and reload the service')
    .action((flags: ChangeFlags) => report(shell, flags, undoChange));
}

function report(
  shell: LocalShell,
  flags: ChangeFlags,
  run: (named: string, options: ChangeOptions) => ConfigurationChange,
): void {
  const { io, warn } = shell;
  const named = configFileOf(flags.config, io.env);
  const isOfUnits = named === etc.config && existsSync('/run/systemd/system');
  const isDry = flags.dryRun === true;
  const options = { isDry, ifHash: flags.ifHash, keepsPaths: flags.keepPaths === true, isOfUnits, env: io.env };
  const change = run(named, options);
  const { faults, isChanged, warnings } = change;
  if (faults.length > 0 && !isDry) throw faulty(change);
  const isReloaded = isChanged && !isDry && flags.reload && isOfUnits && reloaded();
  if (faults.length > 0) shell.setStatus(exitStatus.usage);
  if (flags.json === true) {
    const located = faults.map(({ path, line, message }) => ({ path, line: line ?? null, message }));
    io.stdout.write(jsonLine({ ...change, faults: located, isReloaded }));
    return;
  }
  for (const warning of warnings) warn(warning);
  for (const line of changeLines(change, isDry, isReloaded)) io.stdout.write(`${line}\n`);
}

function faulty({ file, faults }: ConfigurationChange): CliFailure {
  const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`;
  const what = `cannot change ${file}`;
  return new CliFailure('usage', 'INVALID_ARGUMENT', `the new text has ${count}`, {
    what,
    reasons: faults.map(faultLine),
    next: 'Nothing was changed.',
  });
}

/** Whether the service runs and was asked to. */
function reloaded(): boolean {
  const systemctl = (...args: readonly string[]): boolean =>
    spawnSync('systemctl', args, { stdio: 'ignore' }).status === 0;
  return systemctl('is-active', '--quiet', 'lineside.service') && systemctl('--no-block', 'reload', 'lineside.service');
}
