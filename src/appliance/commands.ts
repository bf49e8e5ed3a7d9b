/** The commands of the box itself, for root: its identity, its set-up, updates and backups. None needs the service. */
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { addBackupCommands, type LoadDatabases } from './backup/backup-commands.ts';
import { addIdentityCommands } from './identity/identity-commands.ts';
import { addSetupCommands } from './setup/setup-commands.ts';
import { addUpdateCommands } from './update/update-commands.ts';

export function addApplianceCommands(program: Command, shell: LocalShell, databases: LoadDatabases): void {
  addIdentityCommands(program, shell);
  addSetupCommands(program, shell);
  addUpdateCommands(program, shell);
  addBackupCommands(program, shell, databases);
}
