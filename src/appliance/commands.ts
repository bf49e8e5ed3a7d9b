/** The commands of the box itself, for root: its identity, its set-up, updates and backups. None needs the service. */
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { messageOf } from '../shared/base/errors.ts';
import { addBackupCommands, type LoadDatabases } from './backup/backup-commands.ts';
import { Box } from './box.ts';
import { realDisk } from './disk.ts';
import { addIdentityCommands } from './identity/identity-commands.ts';
import { settleErrors } from './setup/card-writes.ts';
import { applySetup } from './setup/setup.ts';
import { setupExample } from './setup/setup-keys.ts';
import { addUpdateCommands } from './update/update-commands.ts';

export function addApplianceCommands(program: Command, shell: LocalShell, databases: LoadDatabases): void {
  addIdentityCommands(program, shell);
  addSetupCommands(program, shell);
  addUpdateCommands(program, shell);
  addBackupCommands(program, shell, databases);
}

/** The files that a technician edits on the card, put into effect at the start of the box. */
function addSetupCommands(program: Command, { io }: LocalShell): void {
  const setup = program.command('setup').description('set the box up from the files on its card');
  setup
    .command('apply')
    .description('put setup.toml and lineside.toml into effect where they changed; faults go to setup-errors.txt there')
    .requiredOption('--boot <dir>', 'where the boot partition is mounted')
    .option('--root <dir>', 'where the file system of the box is mounted', '/')
    .action((options: { boot: string; root: string }) => {
      const log = (line: string): void => void io.stdout.write(`setup: ${line}\n`);
      const parts = { boot: options.boot, box: new Box(options.root), disk: realDisk, clock: io.clock, log };
      try {
        applySetup(parts);
      } catch (error) {
        // A box may have no other way to tell.
        settleErrors(parts, [messageOf(error)]);
        throw error;
      }
    });
  setup
    .command('example')
    .description('print a commented setup.toml with every key')
    .action(() => {
      io.stdout.write(setupExample());
    });
}
