/** `lineside backup`, `restore`, `factory-reset`: all that makes a box this box, kept, put back, thrown away. */
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import type { LocalShell } from '../../cli/cli.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { tenths } from '../progress.ts';
import { configFileOf, dataPaths } from './data-paths.ts';
import type { KnownDatabase } from './restore-prepare.ts';

/** Handed in: what is in a database is the affair of the service's rooms. */
export type LoadDatabases = () => Promise<Readonly<Record<'log' | 'refdata', KnownDatabase>>>;

const configOption = ['--config <file>', 'configuration (default /etc/lineside/lineside.toml)'] as const;

export function addBackupCommands(program: Command, shell: LocalShell, databases: LoadDatabases): void {
  addBackup(program, shell, program.version() ?? '');
  addRestore(program, shell, databases);
  addFactoryReset(program, shell, program.version() ?? '');
}

function addBackup(program: Command, { io, warn }: LocalShell, version: string): void {
  program
    .command('backup')
    .argument('<file>', 'where the backup is written')
    .description('log, reference data, configuration and identity into one file, beside the running service')
    .option('--no-log', 'without the serial log')
    .option(...configOption)
    .addHelpText(
      'after',
      '\nThe file holds private keys and tokens: a person who has it can be this box.\n\nExamples:\n  sudo lineside backup /media/stick/box-7.backup\n  sudo lineside backup --no-log /media/stick/box-7.backup\n',
    )
    .action(async (file: string, options: { log: boolean; config?: string }) => {
      const { makeBackup } = await import('./backup.ts');
      const list = await makeBackup({
        out: file,
        paths: dataPaths(options.config, io.env, warn),
        withLog: options.log,
        version,
        nowMs: io.clock.wallMs(),
        onProgress: tenths(io.stderr),
      });
      const bytes = list.files.reduce((all, one) => all + one.bytes, 0);
      io.stdout.write(`${file}: ${list.files.length} files of ${list.deviceId}, ${bytes} bytes, read back and sound\n`);
    });
}

function addRestore(program: Command, { io }: LocalShell, databases: LoadDatabases): void {
  program
    .command('restore')
    .argument('[file]', 'the backup')
    .description('put a backup in the place of what this box has; the service is stopped meanwhile')
    .option('--yes', 'really: what the box has now is thrown away')
    .addHelpText('after', '\nExample:\n  sudo lineside restore /media/stick/box-7.backup --yes\n')
    .option('--finish', 'resume a restore that was interrupted (the next start of the box does it automatically)')
    .option(...configOption)
    .action(async (file: string | undefined, options: { yes?: boolean; finish?: boolean; config?: string }) => {
      const configFile = configFileOf(options.config, io.env);
      if (options.finish === true) {
        const { finishRestore } = await import('./restore-swap.ts');
        const finished = finishRestore(dirname(configFile));
        io.stdout.write(finished ? 'the interrupted restore is finished\n' : 'no restore was interrupted\n');
        return;
      }
      if (file === undefined) throw new LinesideError('INVALID_ARGUMENT', 'no backup is named');
      if (!(statSync(file, { throwIfNoEntry: false })?.isFile() ?? false))
        throw new LinesideError('NOT_FOUND', `cannot restore ${file}: there is no such file`);
      needsYes(options.yes, 'What this box has now, its log included, would be replaced.');
      const { restoreBackup, servicesOf } = await import('./restore.ts');
      const services = servicesOf(configFile);
      const list = restoreBackup({ file, configFile, env: io.env, databases: await databases(), services });
      io.stdout.write(`this box is ${list.deviceId} as of ${list.createdAt} again\n`);
    });
}

function addFactoryReset(program: Command, { io }: LocalShell, version: string): void {
  program
    .command('factory-reset')
    .description('throw away log, reference data, configuration and identity, and start as a new card does')
    .option('--yes', 'really: nothing of it can be had again')
    .action(async (options: { yes?: boolean }) => {
      needsYes(options.yes, 'All data of this box would be gone permanently. "lineside backup" keeps it.');
      const { ownTarget, requestFactoryReset } = await import('../update/boot-partition.ts');
      requestFactoryReset(ownTarget(version));
      io.stdout.write('the box starts again now, and empties itself before anything else\n');
      spawnSync('systemctl', ['--no-block', 'reboot'], { stdio: 'inherit' });
    });
}

function needsYes(yes: boolean | undefined, what: string): void {
  if (yes === true) return;
  throw new LinesideError('INVALID_ARGUMENT', 'nothing was done', { hint: `${what} With --yes it is done.` });
}
