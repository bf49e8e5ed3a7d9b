/** `lineside update`: a signed bundle into the slot that does not run; and, for those who build images, making one. */
import type { Command } from 'commander';
import type { LocalShell } from '../../cli/cli.ts';
import { tenths } from '../progress.ts';
import type { readUpdateStatus } from './boot-partition.ts';

type Io = LocalShell['io'];
type UpdateStatus = ReturnType<typeof readUpdateStatus>;

export function addUpdateCommands(program: Command, { io }: LocalShell): void {
  const update = program.command('update').description('the whole system of the card, in two slots with a way back');
  // --version prints it and is commander's own; the number is behind this call without an argument.
  const version = program.version() ?? '';
  addInstall(update, io, version);
  addStatus(update, io, version);
  addMarkGood(update, io, version);
  addPack(update, io, version);
}

function addInstall(update: Command, io: Io, version: string): void {
  update
    .command('install')
    .argument('<file>', 'the signed bundle')
    .description('verify a signed bundle and write it to the slot that does not run; it is tried at the next start')
    .addHelpText(
      'after',
      '\nExamples:\n  sudo lineside update install /media/stick/lineside-1.3.0.update && sudo systemctl reboot\n  sudo lineside update status\n',
    )
    .option('--allow-downgrade', 'also where the bundle is older than what runs')
    .action(async (file: string, options: { allowDowngrade?: boolean }) => {
      const [{ installUpdate }, { ownTarget }] = await Promise.all([
        import('./update-install.ts'),
        import('./boot-partition.ts'),
      ]);
      const target = ownTarget(version);
      const onProgress = tenths(io.stderr);
      const { slot, manifest } = installUpdate({
        file,
        target,
        allowDowngrade: options.allowDowngrade === true,
        onProgress,
      });
      io.stdout.write(
        `lineside ${manifest.version} is in slot ${slot} and is tried at the next start: systemctl reboot\n` +
          'If it does not become healthy, the box automatically returns to the slot that runs now.\n',
      );
    });
}

function addStatus(update: Command, io: Io, version: string): void {
  update
    .command('status')
    .description('which slot runs, which is good, and whether one is on trial')
    .option('--json', 'print JSON')
    .action(async (options: { json?: boolean }) => {
      const { ownTarget, readUpdateStatus } = await import('./boot-partition.ts');
      const shown = readUpdateStatus(ownTarget(version));
      if (options.json === true) io.stdout.write(`${JSON.stringify(shown)}\n`);
      else io.stdout.write(`${statusLines(shown).join('\n')}\n`);
    });
}

function addMarkGood(update: Command, io: Io, version: string): void {
  update
    .command('mark-good')
    .description('keep the slot that runs now; the health check does it automatically after an update')
    .action(async () => {
      const [{ markGood }, { ownTarget }] = await Promise.all([
        import('./update-install.ts'),
        import('./boot-partition.ts'),
      ]);
      const { slot, wasGood } = markGood(ownTarget(version));
      io.stdout.write(`slot ${slot} ${wasGood ? 'was good already' : 'is the good one now'}\n`);
    });
}

function addPack(update: Command, io: Io, version: string): void {
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
      const { packBundle } = await import('./update-bundle.ts');
      const epoch = Number(io.env['SOURCE_DATE_EPOCH'] ?? Number.NaN);
      const builtAtS = Number.isSafeInteger(epoch) ? epoch : Math.floor(io.clock.wallMs() / 1000);
      const manifest = packBundle({ ...options, version: options.release ?? version, builtAtS });
      io.stdout.write(`${JSON.stringify(manifest, null, 2)}\n`);
    });
}

function statusLines({ version, running, onTrial, good, trying, triesLeft, failed }: UpdateStatus): string[] {
  const lines = [
    `slot ${running} runs lineside ${version}${onTrial ? ', on trial' : ''}; slot ${good} is the good one`,
  ];
  if (trying !== null && trying !== running)
    lines.push(`slot ${trying} holds an update that is tried at the next start`);
  if (failed !== null)
    lines.push(`the update in slot ${failed} did not become healthy: the box returned to slot ${good}`);
  if (onTrial) lines.push(`starts left before the box returns to slot ${good}: ${triesLeft}`);
  return lines;
}
