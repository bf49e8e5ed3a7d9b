import type { Command } from 'commander';
import type { Shell } from './shell.ts';
export function addMonitor(_program: Command, _shell: Shell): void {}
