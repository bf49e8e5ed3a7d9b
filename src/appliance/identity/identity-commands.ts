/** `lineside identity`: who this box is to those who reach it over the network. */
import { X509Certificate } from 'node:crypto';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import type { LocalShell } from '../../cli/cli.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { Box, etc } from '../box.ts';
import { realDisk } from '../disk.ts';
import { commit, finish } from '../transaction.ts';
import { authorityOf, findIdentity, type Identity, type NewIdentity, planIdentity, wantedNames } from './identity.ts';

interface Options {
  readonly root: string;
  readonly hostname?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export function addIdentityCommands(program: Command, { io }: LocalShell): void {
  const identity = program.command('identity').description('the certificates by which the box is known on the network');
  const place = (command: Command): Command =>
    command.option('--root <dir>', 'where its file system is mounted', '/').option('--json', 'print JSON');
  const print = (shown: Identity | NewIdentity['file'], json: boolean | undefined, intro: string): void => {
    io.stdout.write(json === true ? `${JSON.stringify(publicPart(shown))}\n` : intro + describe(shown));
  };

  place(identity.command('create'))
    .description('make an authority and a server certificate of its own; nothing where there are')
    .option('--hostname <name>', 'name in the certificate (default: that of the machine)')
    .option('--force', 'replace an identity: everyone who trusts the old one has to trust again')
    .action((options: Options) => {
      const box = new Box(options.root);
      finish(box, realDisk);
      const found = findIdentity(box);
      if (options.force !== true) {
        if (found.kind === 'whole') return print(found.identity, options.json, 'There is an identity already.\n');
        if (found.kind === 'damaged') throw damaged(found.what);
      }
      const planned = planIdentity(box, wantedNames(hostnameOf(box, options)), io.clock.wallMs());
      commit(box, realDisk, planned.changes);
      print(planned.file, options.json, '');
    });

  place(identity.command('show'))
    .description("print the device's name, the fingerprint to compare, and what the certificate is good for")
    .action((options: Options) => {
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
    .action((options: Options) => {
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
      const addresses = found.kind === 'whole' ? found.identity.names.filter(isFixedAddress) : [];
      const names = wantedNames(hostnameOf(box, options), addresses);
      const planned = planIdentity(box, names, io.clock.wallMs(), kept);
      commit(box, realDisk, planned.changes);
      print(
        planned.file,
        options.json,
        'Renewed. The service shows it from its next start: systemctl restart lineside\n',
      );
    });
}

function isFixedAddress(name: string): boolean {
  return /^[\d.]+$|:/.test(name) && name !== '127.0.0.1' && name !== '::1';
}

function hostnameOf(box: Box, options: Options): string {
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

function publicPart(shown: Identity | NewIdentity['file']): object {
  const { deviceId, caFingerprint, serverFingerprint, createdAt } = shown;
  return { deviceId, caFingerprint, serverFingerprint, createdAt };
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
