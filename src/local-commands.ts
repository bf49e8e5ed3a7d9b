/** The commands that need no running service: they work on this machine's configuration and tokens file. */
import type { Command } from 'commander';
import { addApplianceCommands, type LoadDatabases } from './appliance/commands.ts';
import { addConfigCommands } from './appliance/configuration/commands.ts';
import type { LocalShell } from './cli/cli.ts';
import { CliFailure } from './cli/failure.ts';
import { jsonLine } from './cli/output/json.ts';
import { localTime } from './cli/output/numbers.ts';
import { table } from './cli/output/table.ts';
import { addCollectorCommands } from './collector/commands.ts';
import { addDoctorCommands } from './doctor/commands.ts';
import { listTokens, readTokensFile, roles } from './shared/auth/tokens.ts';
import { systemClock } from './shared/base/clock.ts';
import { LinesideError } from './shared/base/errors.ts';
import type { Config } from './shared/config/config.ts';
import { loadTolerant } from './shared/config/load.ts';

type Warn = (warning: string) => void;

/** The first Unix socket that a configuration file names for the line ('grpc') or the hub. */
export function localSocket(section: 'grpc' | 'http', configFile: string | undefined, warn: Warn): string {
  const key = `${section}.listen`;
  const config = configFor(configFile, [key, 'data.runtime_dir'], warn);
  const unix = config[section].listen.find((address) => address.kind === 'unix');
  if (unix === undefined)
    throw new LinesideError('CONFIG_INVALID', `${key} names no Unix socket`, { hint: 'use --host or --socket' });
  return unix.path;
}

/** The configuration for a command that needs some keys; faults of other keys are reported and do not stop it. */
function configFor(configFile: string | undefined, needed: readonly string[], warn: Warn): Config {
  const { config, warning } = loadTolerant(configFile, process.env, needed);
  if (warning !== '') warn(warning);
  return config;
}

export function addLocalCommands(program: Command, shell: LocalShell): void {
  addConfigCommands(program, shell);
  addTokenCommands(program, shell);
  addApplianceCommands(program, shell, databases);
  addDoctorCommands(program, shell);
  addCollectorCommands(program, shell);
  program
    .command('admin-service', { hidden: true })
    .description('the helper that administration over HTTP goes through, started by systemd')
    .option('--config <file>', configHelp)
    .action(async (options: { config?: string }) => {
      const { serveAdmin } = await import('./admin/admin-service.ts');
      await serveAdmin(options.config, shell.io.env);
    });
  program
    .command('serve')
    .description('run the service in the foreground (lineside serve --help)')
    .option('--config <file>', 'configuration (default /etc/lineside/lineside.toml)')
    .option('--role <role>', 'only one process of it: line or hub');
}

/** Migrations and identities of the databases, for a restore; loaded by that command alone. */
async function databases(): ReturnType<LoadDatabases> {
  const [{ migrations }, { renewLogIdentity }, { hubMigrations }, { renewStoreId }] = await Promise.all([
    import('./line/log/store/schema.ts'),
    import('./line/log/store/tables.ts'),
    import('./hub/migrations.ts'),
    import('./hub/outbox/transaction.ts'),
  ]);
  return {
    log: { migrations, renew: renewLogIdentity },
    refdata: { migrations: hubMigrations, renew: renewStoreId },
  };
}

const configHelp = 'configuration of the service (default /etc/lineside/lineside.toml)';

function addTokenCommands(program: Command, { io, warn }: LocalShell): void {
  const token = program.command('token').description('bearer tokens for access from the network');
  const tokensFile = (options: { config?: string }): string =>
    configFor(options.config, ['auth.tokens_file'], warn).auth.tokensFile;
  const withConfig = (command: Command): Command => command.option('--config <file>', configHelp);
  const collect = (role: string, before: string[]): string[] => [...before, role];

  withConfig(token.command('add').argument('<name>', 'name of the token: who uses it'))
    .description('store a new token and print it once, as the last line; only its hash is kept')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside token add ops --role operator --role reader\n  lineside token add wall-display --role viewer\n',
    )
    .requiredOption('--role <role>', `one of ${roles.join(', ')}; repeatable`, collect, [])
    .option('--json', 'print JSON for scripts')
    .action(async (name: string, options: TokenOptions & { role: string[] }) => {
      const { addToken } = await import('./shared/auth/token-file.ts');
      const file = tokensFile(options);
      const now = new Date(systemClock.wallMs());
      const secret = asUsage(`add token ${name}`, () => addToken(file, name, options.role, now));
      const text = `${name} (${options.role.join(', ')}) may use this token. It is shown this once:\n${secret}\n`;
      io.stdout.write(options.json === true ? jsonLine({ name, roles: options.role, token: secret }) : text);
    });
  withConfig(token.command('list'))
    .description('names, roles and ages; no secrets are kept')
    .option('--json', 'print JSON for scripts')
    .action((options: TokenOptions) => {
      const file = tokensFile(options);
      const found = readTokensFile(file) === undefined ? undefined : listTokens(file);
      const shown = (found ?? []).map(({ name, roles, createdAt }) => ({ name, roles, createdAt }));
      if (options.json === true) return void io.stdout.write(`${JSON.stringify(shown)}\n`);
      if (shown.length === 0)
        return void io.stdout.write(found === undefined ? `no tokens: there is no ${file}\n` : 'no tokens\n');
      const rows = shown.map(({ name, roles, createdAt }) => [name, roles.join(','), localMoment(createdAt)]);
      io.stdout.write(table(['NAME', 'ROLES', 'CREATED'], rows, 0));
    });
  withConfig(token.command('revoke').argument('<name>', 'name of the token: who uses it'))
    .description('end a token at once, also for the running service')
    .option('--keep-admin', 'refuse to revoke the last token with the role admin')
    .option('--json', 'print JSON for scripts')
    .action(async (name: string, options: TokenOptions & { keepAdmin?: true }) => {
      const { revokeToken } = await import('./shared/auth/token-file.ts');
      const file = tokensFile(options);
      asUsage(`revoke token ${name}`, () => revokeToken(file, name, options.keepAdmin));
      io.stdout.write(options.json === true ? jsonLine({ name }) : `${name} is revoked\n`);
    });
}

interface TokenOptions {
  readonly config?: string;
  readonly json?: true;
}

/** 2026-01-31 12:00:00, as all times are shown to people: local. */
function localMoment(rfc3339: string): string {
  const { date, time } = localTime(Date.parse(rfc3339));
  return `${date} ${time.slice(0, 8)}`;
}

/** A name or role that is refused is a fault of the command line: status 2. */
function asUsage<T>(what: string, change: () => T): T {
  try {
    return change();
  } catch (error) {
    if (!(error instanceof LinesideError) || error.code !== 'INVALID_ARGUMENT') throw error;
    const next = error.hint === '' ? '' : `${error.hint.charAt(0).toUpperCase()}${error.hint.slice(1)}.`;
    throw new CliFailure('usage', error.code, error.message, { what: `cannot ${what}`, next, cause: error });
  }
}
