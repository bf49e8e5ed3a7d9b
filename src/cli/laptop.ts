/** The program of the package for laptops: the commands alone. It has no service, so each command needs the name of a box. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { getAsset, isSea } from 'node:sea';
import packageJson from '../../package.json' with { type: 'json' };
import { type CliParts, runCli } from './cli.ts';
import { usageFailure } from './failure.ts';
import { processIo } from './io.ts';

const parts: CliParts = {
  version: packageJson.version,
  localSocket: () => {
    throw usageFailure('no box is named', 'Give --host or --profile; lineside discover lists the boxes.');
  },
  local: (program, { io }) => {
    program
      .command('licences')
      .description('print the licences of the program and of the works of others in it')
      .action(() => {
        io.stdout.write(licences());
      });
  },
};

/** The package has the file beside the program, the single executable has it inside. */
function licences(): string {
  return isSea() ? getAsset('licences.txt', 'utf8') : readFileSync(join(import.meta.dirname, 'licences.txt'), 'utf8');
}

void runCli(process.argv.slice(2), processIo(), parts).then((status) => {
  process.exitCode = status;
  // As in main.ts.
  if (process.argv[2] === '__complete') process.exit();
});
