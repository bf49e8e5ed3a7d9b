/** The commands of the box itself, for root: its identity, its set-up, updates and backups. None needs the service. */
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { LinesideError, messageOf } from '../shared/base/errors.ts';
import { instantOfMs } from '../shared/base/instant.ts';
import { configFileOf, dataPaths } from './backup/data-paths.ts';
import type { KnownDatabase } from './backup/restore-prepare.ts';
import { Box, etc } from './box.ts';
import { realDisk } from './disk.ts';
import {
  authorityOf,
  findIdentity,
  type Identity,
  type NewIdentity,
  type Pair,
  planIdentity,
  wantedNames,
} from './identity/identity.ts';
import { settleErrors } from './setup/card-writes.ts';
import { applySetup } from './setup/setup.ts';
import { setupExample } from './setup/setup-keys.ts';
import { commit, finish } from './transaction.ts';
import type { readUpdateStatus } from './update/boot-partition.ts';

/** What is in a database is the affair of the service's rooms; a restore alone loads it. */
export type LoadDatabases = () => Promise<Readonly<Record<'log' | 'refdata', KnownDatabase>>>;

export function addApplianceCommands(program: Command, shell: LocalShell, databases: LoadDatabases): void {
  // commander's version() returns the number if it is called without an argument.
  const version = program.version() ?? '';
  addIdentityCommands(program, shell);
  addSetupCommands(program, shell);
  addUpdateCommands(program, shell, version);
  addBackup(program, shell, version);
  addRestore(program, shell, databases);
  addFactoryReset(program, shell, version);
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
        // A box may have no other way to report it.
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

interface IdentityOptions {
  readonly root: string;
  readonly hostname?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

function addIdentityCommands(program: Command, { io }: LocalShell): void {
  const identity = program.command('identity').description('the certificates by which the box is known on the network');
  const place = (command: Command): Command =>
    command.option('--root <dir>', 'where its file system is mounted', '/').option('--json', 'print JSON');
  const print = (shown: Identity | NewIdentity['file'], json: boolean | undefined, intro: string): void => {
    const { deviceId, caFingerprint, serverFingerprint, createdAt } = shown;
    const publicPart = { deviceId, caFingerprint, serverFingerprint, createdAt };
    io.stdout.write(json === true ? `${JSON.stringify(publicPart)}\n` : intro + describe(shown));
  };
  const make = (
    box: Box,
    options: IdentityOptions,
    intro: string,
    kept?: Pair,
    addresses?: readonly string[],
  ): void => {
    const names = wantedNames(hostnameOf(box, options), addresses);
    const planned = planIdentity(box, names, io.clock.wallMs(), kept);
    commit(box, realDisk, planned.changes);
    print(planned.file, options.json, intro);
  };

  place(identity.command('create'))
    .description('make an authority and a server certificate of its own; nothing where there are')
    .option('--hostname <name>', 'name in the certificate (default: that of the machine)')
    .option('--force', 'replace an identity: everyone who trusts the old one has to trust again')
    .action((options: IdentityOptions) => {
      const box = new Box(options.root);
      finish(box, realDisk);
      const found = findIdentity(box);
      if (options.force !== true) {
        if (found.kind === 'whole') return print(found.identity, options.json, 'There is an identity already.\n');
        if (found.kind === 'damaged') throw damaged(found.what);
      }
      make(box, options, '');
    });

  place(identity.command('show'))
    .description("print the device's name, the fingerprint to compare, and what the certificate is good for")
    .action((options: IdentityOptions) => {
      const found = findIdentity(new Box(options.root));
      if (found.kind === 'damaged') throw damaged(found.what);
      if (found.kind === 'none') {
        throw new LinesideError('NOT_FOUND', 'cannot show the identity: this box has none yet', {
          hint: 'Try: sudo lineside identity create',
        });
      }
      print(found.identity, options.json, '');
    });

  place(identity.command('renew'))
    .description('a new key and certificate for the server, by the same authority: the fingerprint stays')
    .addHelpText('after', '\nExample:\n  sudo lineside identity renew && sudo systemctl restart lineside\n')
    .option('--hostname <name>', 'name in the certificate (default: that of the machine)')
    .action((options: IdentityOptions) => {
      const box = new Box(options.root);
      finish(box, realDisk);
      const found = findIdentity(box);
      const kept = authorityOf(found);
      if (kept === undefined) {
        throw new LinesideError('NOT_FOUND', 'cannot renew the certificate: this box has no authority to sign it', {
          hint: 'Try: sudo lineside identity create',
        });
      }
      // Addresses stay: a box set up with a fixed one is called by it.
      const isFixed = (name: string): boolean => /^[\d.]+$|:/.test(name) && name !== '127.0.0.1' && name !== '::1';
      const addresses = found.kind === 'whole' ? found.identity.names.filter(isFixed) : [];
      make(
        box,
        options,
        'Renewed. The service shows it from its next start: systemctl restart lineside\n',
        kept,
        addresses,
      );
    });
}

function hostnameOf(box: Box, options: IdentityOptions): string {
  const stored = box.root === '/' ? hostname() : (box.text(etc.hostname) ?? '').trim();
  const name = options.hostname ?? stored;
  if (name !== '' && !/^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$/.test(name)) {
    throw new LinesideError('INVALID_ARGUMENT', `cannot use the name "${name}": it is no host name`, {
      hint: 'Try: --hostname with letters, digits, "-" and "."',
    });
  }
  return name.toLowerCase();
}

function damaged(what: string): LinesideError {
  return new LinesideError('CONFLICT', `cannot use the identity: ${what}`, {
    hint: 'Try: sudo lineside identity renew (keeps the authority if it is whole), or identity create --force (replaces it)',
  });
}

function describe(shown: Identity | NewIdentity['file']): string {
  const lines = [
    `device       ${shown.deviceId}`,
    `fingerprint  ${shown.caFingerprint}`,
    `server       ${shown.serverFingerprint}`,
  ];
  if ('names' in shown) {
    lines.push(`names        ${shown.names.join(', ')}`, `valid until  ${instantOfMs(shown.serverEndMs)}`);
    lines.push(`authority    ${new X509Certificate(shown.authority.cert).subject}`);
  }
  return `${lines.join('\n')}\n`;
}

function addUpdateCommands(program: Command, { io }: LocalShell, version: string): void {
  const update = program.command('update').description('the whole system of the card, in two slots with a way back');
  update
    .command('install')
    .argument('<file>', 'the signed bundle')
    .description('verify a signed bundle and write it to the slot that does not run; it is tried at the next start')
    .addHelpText(
      'after',
      '\nExamples:\n  sudo lineside update install /media/stick/lineside-1.3.0.update && sudo systemctl reboot\n  sudo lineside update status\n',
    )
    .option('--allow-downgrade', 'also where the bundle is older than what runs')
    .action(async (file: string, { allowDowngrade = false }: { allowDowngrade?: boolean }) => {
      const { ownTarget } = await import('./update/boot-partition.ts');
      const { installUpdate } = await import('./update/update-install.ts');
      const target = ownTarget(version);
      const { slot, manifest } = installUpdate({ file, target, allowDowngrade, onProgress: tenths(io.stderr) });
      io.stdout.write(
        `lineside ${manifest.version} is in slot ${slot} and is tried at the next start: systemctl reboot\n` +
          'If it does not become healthy, the box automatically returns to the slot that runs now.\n',
      );
    });
  update
    .command('status')
    .description('which slot runs, which is good, and whether one is on trial')
    .option('--json', 'print JSON')
    .action(async ({ json }: { json?: boolean }) => {
      const { ownTarget, readUpdateStatus } = await import('./update/boot-partition.ts');
      const shown = readUpdateStatus(ownTarget(version));
      io.stdout.write(json === true ? `${JSON.stringify(shown)}\n` : `${statusLines(shown).join('\n')}\n`);
    });
  update
    .command('mark-good')
    .description('keep the slot that runs now; the health check does it automatically after an update')
    .action(async () => {
      const { markGood, ownTarget } = await import('./update/boot-partition.ts');
      const { slot, wasGood } = markGood(ownTarget(version));
      io.stdout.write(`slot ${slot} ${wasGood ? 'was good already' : 'is the good one now'}\n`);
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

function statusLines(status: ReturnType<typeof readUpdateStatus>): string[] {
  const { version, running, onTrial, good, trying, triesLeft, failed } = status;
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

const configOption = ['--config <file>', 'configuration (default /etc/lineside/lineside.toml)'] as const;

function addBackup(program: Command, { io, warn }: LocalShell, version: string): void {
  program
    .command('backup')
    .argument('<file>', 'where the backup is written')
    .description('log, reference data, configuration and identity into one file, beside the running service')
    .option('--no-log', 'without the serial log')
    .option('--no-keys', 'without identity, private keys and secrets: a restore leaves those that the box has')
    .option(...configOption)
    .option('--json', 'print JSON for scripts')
    .addHelpText(
      'after',
      '\nUnless --no-keys is given, the file holds private keys: a person who has it can be this box.\n\nExamples:\n  sudo lineside backup /media/stick/box-7.backup\n  sudo lineside backup --no-log /media/stick/box-7.backup\n',
    )
    .action(async (file: string, options: { log: boolean; keys: boolean; config?: string; json?: true }) => {
      const { makeBackup } = await import('./backup/backup.ts');
      const list = await makeBackup({
        out: file,
        paths: dataPaths(options.config, io.env, warn),
        withLog: options.log,
        withKeys: options.keys,
        version,
        nowMs: io.clock.wallMs(),
        onProgress: options.json === true ? () => undefined : tenths(io.stderr),
      });
      const bytes = list.files.reduce((all, one) => all + one.bytes, 0);
      const text = `${file}: ${list.files.length} files of ${list.deviceId}, ${bytes} bytes, read back and sound\n`;
      const { files, ...about } = list;
      io.stdout.write(options.json === true ? `${JSON.stringify({ ...about, files: files.length, bytes })}\n` : text);
    });
}

function addRestore(program: Command, { io }: LocalShell, databases: LoadDatabases): void {
  program
    .command('restore')
    .argument('[file]', 'the backup')
    .description('put a backup in the place of what this box has; the service is stopped meanwhile')
    .option('--yes', 'confirm: all data of the box is deleted')
    .addHelpText('after', '\nExample:\n  sudo lineside restore /media/stick/box-7.backup --yes\n')
    .option('--finish', 'resume a restore that was interrupted (the next start of the box does it automatically)')
    .option(...configOption)
    .action(async (file: string | undefined, options: { yes?: boolean; finish?: boolean; config?: string }) => {
      const configFile = configFileOf(options.config, io.env);
      if (options.finish === true) {
        const { finishRestore } = await import('./backup/restore-swap.ts');
        const finished = finishRestore(dirname(configFile));
        io.stdout.write(finished ? 'the interrupted restore is finished\n' : 'no restore was interrupted\n');
        return;
      }
      if (file === undefined) throw new LinesideError('INVALID_ARGUMENT', 'no backup is named');
      if (!(statSync(file, { throwIfNoEntry: false })?.isFile() ?? false))
        throw new LinesideError('NOT_FOUND', `cannot restore ${file}: there is no such file`);
      needsYes(options.yes, 'What this box has now, its log included, would be replaced.');
      const { restoreBackup, servicesOf } = await import('./backup/restore.ts');
      const services = servicesOf(configFile);
      const list = restoreBackup({ file, configFile, env: io.env, databases: await databases(), services });
      io.stdout.write(`this box is ${list.deviceId} as of ${list.createdAt} again\n`);
    });
}

function addFactoryReset(program: Command, { io }: LocalShell, version: string): void {
  program
    .command('factory-reset')
    .description('delete log, reference data, configuration and identity, and start as a new card does')
    .option('--yes', 'really: nothing of it can be had again')
    .action(async (options: { yes?: boolean }) => {
      needsYes(options.yes, 'All data of this box would be gone permanently. "lineside backup" keeps it.');
      const { ownTarget, requestFactoryReset } = await import('./update/boot-partition.ts');
      requestFactoryReset(ownTarget(version));
      io.stdout.write('the box starts again now, and empties itself before anything else\n');
      spawnSync('systemctl', ['--no-block', 'reboot'], { stdio: 'inherit' });
    });
}

function needsYes(yes: boolean | undefined, what: string): void {
  if (yes === true) return;
  throw new LinesideError('INVALID_ARGUMENT', 'nothing was done', { hint: `${what} With --yes it is done.` });
}

/** A line for each tenth, readable where the output is a file too. */
function tenths(out: { write(text: string): unknown }): (what: string, done: number, of: number) => void {
  let last = '';
  return (what, done, of) => {
    const line = `${what}: ${of === 0 ? 100 : Math.floor((10 * done) / of) * 10} %\n`;
    if (line !== last) out.write(line);
    last = line;
  };
}
