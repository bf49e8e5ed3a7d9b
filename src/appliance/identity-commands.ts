/** `lineside identity`: who this box is to those who reach it over the network. */
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';

export function addIdentityCommands(program: Command, _shell: LocalShell): void {
  program.command('identity').description('the certificates by which the box is known on the network');
}
