/** The commands of the box itself, for root: its identity, its set-up, updates and backups. None needs the service. */
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { LinesideError } from '../shared/base/errors.ts';
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
import { reported, stateFileOption, tenths } from './progress.ts';
import { type CardsOptions, writeCards } from './setup/cards.ts';
import { applyFiles } from './setup/setup-apply.ts';
import { setupExample } from './setup/setup-keys.ts';
import { commit, finish } from './transaction.ts';
import { addUpdateCommands } from './update-commands.ts';

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
    .action(applyFiles);
  setup
    .command('cards')
    .requiredOption('--from <file>', 'CSV: a line for each box; the first line names the columns, one of them "name"')
    .requiredOption('--setup <file>', 'template of setup.toml')
    .option('--lineside <file>', 'template of lineside.toml')
    .requiredOption('--output <dir>', 'where to: a directory for each box')
    .description('make the files of many cards from a list of boxes, each with a token of its own')
    .addHelpText(
      'after',
      '\nIn a template, @COLUMN@ is the value of the box (in double quotes, or a number), and @token_hash@ the hash of its token, which is in\ntoken.txt. The files are checked as the box checks them; with a fault nothing is written.\n\nExample:\n  lineside setup cards --from boxes.csv --setup setup-template.toml --output cards\n',
    )
    .action((options: CardsOptions) => {
      const names = writeCards(options);
      io.stdout.write(names.map((name) => `${join(options.output, name)}\n`).join(''));
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

interface RestoreCommandOptions {
  readonly yes?: true;
  readonly show?: true;
  readonly keepSecrets?: true;
  readonly stateFile?: string;
  readonly finish?: true;
  readonly config?: string;
  readonly json?: true;
}

function addRestore(program: Command, shell: LocalShell, databases: LoadDatabases): void {
  const { io } = shell;
  const finish = async (configFile: string): Promise<void> => {
    const { finishRestore } = await import('./backup/restore-swap.ts');
    const finished = finishRestore(dirname(configFile));
    io.stdout.write(finished ? 'the interrupted restore is finished\n' : 'no restore was interrupted\n');
  };
  const show = async (file: string, json: boolean): Promise<void> => {
    const { inspectBackup } = await import('./backup/restore.ts');
    const found = inspectBackup(file, json ? () => undefined : tenths(io.stderr));
    const lines = Object.entries(found).map(([name, value]) => `${name.padEnd(14)}${value ?? 'none'}\n`);
    io.stdout.write(json ? `${JSON.stringify(found)}\n` : lines.join(''));
  };
  program
    .command('restore')
    .argument('[file]', 'the backup')
    .description('put a backup in the place of what this box has; the service is stopped meanwhile')
    .option('--yes', 'confirm: all data of the box is deleted')
    .addHelpText('after', '\nExample:\n  sudo lineside restore /media/stick/box-7.backup --yes\n')
    .option('--show', 'verify the backup and print what is in it; change nothing')
    .option('--keep-secrets', 'the box keeps its tokens, keys and secrets, whatever the backup holds')
    .option('--finish', 'resume a restore that was interrupted (the next start of the box does it automatically)')
    .option(...stateFileOption)
    .option(...configOption)
    .option('--json', 'print JSON')
    .action(async (file: string | undefined, options: RestoreCommandOptions) => {
      const configFile = configFileOf(options.config, io.env);
      if (options.finish === true) return finish(configFile);
      if (file === undefined) throw new LinesideError('INVALID_ARGUMENT', 'no backup is named');
      if (!(statSync(file, { throwIfNoEntry: false })?.isFile() ?? false))
        throw new LinesideError('NOT_FOUND', `cannot restore ${file}: there is no such file`);
      if (options.show === true) return show(file, options.json === true);
      needsYes(options.yes, 'What this box has now, its log included, would be replaced.');
      const { restoreBackup, servicesOf } = await import('./backup/restore.ts');
      const services = servicesOf(configFile);
      const known = await databases();
      const keepsSecrets = options.keepSecrets === true;
      await reported(shell, options.stateFile, async (onProgress) => {
        const restored = { file, configFile, env: io.env, databases: known, services, keepsSecrets, onProgress };
        const { deviceId, createdAt } = restoreBackup(restored);
        const text = `this box is ${deviceId} as of ${createdAt} again\n`;
        io.stdout.write(options.json === true ? `${JSON.stringify({ deviceId, createdAt })}\n` : text);
        return deviceId;
      });
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
