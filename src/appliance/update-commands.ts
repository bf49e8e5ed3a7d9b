/** The commands of updates: for root, but for `pack`, which makes a bundle anywhere. */
import { spawnSync } from 'node:child_process';
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { slotLines } from '../cli/output/box-reports.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { reported, stateFileOption, tenths } from './progress.ts';

/** systemd stops all services at once: before that the console and other clients have their answer. */
const RESTART_DELAY_S = 5;

export function addUpdateCommands(program: Command, shell: LocalShell, version: string): void {
  const { io } = shell;
  const update = program.command('update').description('the whole system of the card, in two slots with a way back');
  addBundleCommands(update, shell, version);
  addSlotCommands(update, io, version);
}

function addBundleCommands(update: Command, shell: LocalShell, version: string): void {
  const { io } = shell;
  update
    .command('install')
    .argument('<file>', 'the signed bundle')
    .description('verify a signed bundle and write it to the slot that does not run; it is tried at the next start')
    .addHelpText(
      'after',
      '\nExamples:\n  sudo lineside update install /media/stick/lineside-1.3.0.update && sudo systemctl reboot\n  sudo lineside update status\n',
    )
    .option('--allow-downgrade', 'also where the bundle is older than what runs')
    .option(...stateFileOption)
    .action(async (file: string, options: { allowDowngrade?: boolean; stateFile?: string }) => {
      const { ownTarget } = await import('./update/boot-partition.ts');
      const { installUpdate } = await import('./update/update-install.ts');
      const { allowDowngrade = false } = options;
      await reported(shell, options.stateFile, async (onProgress) => {
        const { slot, manifest } = installUpdate({ file, target: ownTarget(version), allowDowngrade, onProgress });
        io.stdout.write(
          `lineside ${manifest.version} is in slot ${slot} and is tried at the next start: systemctl reboot\n` +
            'If it does not become healthy, the box automatically returns to the slot that runs now.\n',
        );
        return manifest.version;
      });
    });
  update
    .command('check')
    .argument('<file>', 'the signed bundle')
    .description('verify a signed bundle as update install does, and change nothing')
    .option('--json', 'print JSON')
    .action(async (file: string, { json }: { json?: true }) => {
      const { ownTarget } = await import('./update/boot-partition.ts');
      const { checkUpdate } = await import('./update/update-install.ts');
      const onProgress = json === true ? () => undefined : tenths(io.stderr);
      const { slot, manifest } = checkUpdate({ file, target: ownTarget(version), allowDowngrade: false, onProgress });
      const { version: offered, board, builtAt } = manifest;
      const text = `lineside ${offered} for ${board}, made at ${builtAt}: it can be installed in slot ${slot}\n`;
      io.stdout.write(json === true ? `${JSON.stringify({ version: offered, board, builtAt, slot })}\n` : text);
    });
  update
    .command('pack')
    .description('make a signed bundle from an image build (needs no box)')
    .requiredOption('--root <file>', 'image of the root partition')
    .requiredOption('--boot <dir>', "the slot's directory of the boot partition")
    .requiredOption('--key <file>', 'private Ed25519 key (PEM)')
    .requiredOption('--out <file>', 'the bundle')
    .option('--board <name>', 'what it runs on', 'raspberry-pi-arm64')
    .option('--release <version>', 'its version; default: of this lineside')
    .action(async (options: Record<'root' | 'boot' | 'key' | 'out' | 'board' | 'release', string>) => {
      const { packBundle } = await import('./update/update-bundle.ts');
      const epoch = Number(io.env['SOURCE_DATE_EPOCH'] ?? Number.NaN);
      const builtAtS = Number.isSafeInteger(epoch) ? epoch : Math.floor(io.clock.wallMs() / 1000);
      const manifest = packBundle({ ...options, version: options.release ?? version, builtAtS });
      io.stdout.write(`${JSON.stringify(manifest, null, 2)}\n`);
    });
}

function addSlotCommands(update: Command, io: LocalShell['io'], version: string): void {
  update
    .command('try')
    .description('restart the box with the update that waits in the other slot')
    .option('--json', 'print failures as JSON')
    .action(async () => {
      const { ownTarget, readUpdateStatus } = await import('./update/boot-partition.ts');
      const { running, trying } = readUpdateStatus(ownTarget(version));
      if (trying === null) throw new LinesideError('CONFLICT', 'no update waits to be tried');
      // Another start would use up one of its tries.
      if (trying === running) throw new LinesideError('CONFLICT', `slot ${running} is on trial already`);
      const timer = ['--quiet', '--collect', `--on-active=${RESTART_DELAY_S}`, '--timer-property=AccuracySec=100ms'];
      const { status, stderr, error } = spawnSync('systemd-run', [...timer, 'systemctl', '--no-block', 'reboot'], {
        encoding: 'utf8',
      });
      if (status !== 0)
        throw new LinesideError('NOT_READY', `the box cannot be restarted: ${error?.message ?? stderr.trim()}`);
      io.stdout.write(`the box restarts in ${RESTART_DELAY_S} s, with slot ${trying}\n`);
    });
  update
    .command('status')
    .description('which slot runs, which is good, and whether one is on trial')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { ownTarget, readUpdateStatus } = await import('./update/boot-partition.ts');
      const shown = readUpdateStatus(ownTarget(version));
      io.stdout.write(json === true ? `${JSON.stringify(shown)}\n` : `${slotLines(shown).join('\n')}\n`);
    });
  update
    .command('mark-good')
    .description('keep the slot that runs now; the health check does it automatically after an update')
    .action(async () => {
      const { markGood, ownTarget } = await import('./update/boot-partition.ts');
      const { slot, wasGood } = markGood(ownTarget(version));
      io.stdout.write(`slot ${slot} ${wasGood ? 'was good already' : 'is the good one now'}\n`);
    });
}
