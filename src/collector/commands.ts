/** `lineside collector`: the reference collector, for a central side without Kafka. It knows nothing of a box's own configuration. */
import { type Command, Option } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import type { CliIo } from '../cli/io.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { createLogger } from '../shared/base/logger.ts';
import { parseListen } from '../shared/config/listen.ts';
import type { ReadOptions } from './read-command.ts';
import type { CollectorOptions } from './server.ts';

interface ServeOptions extends Partial<CollectorOptions> {
  readonly listen: string;
  readonly dir: string;
}

export function addCollectorCommands(program: Command, shell: LocalShell): void {
  const { io } = shell;
  const collector = program
    .command('collector')
    .description('receive the serial logs of boxes without Kafka; runs on a central machine');
  collector
    .command('serve')
    .description('receive the logs that boxes push, until SIGTERM or SIGINT')
    .requiredOption('--listen <host:port>', 'address; another one than loopback needs TLS and tokens')
    .requiredOption('--dir <dir>', 'where the logs are kept: DIR/DEVICE/LOG/')
    .option('--tls-cert <file>', 'certificate chain, PEM')
    .option('--tls-key <file>', 'its key, PEM')
    .option('--tokens <file>', 'who may push: lines "DEVICE-ID SHA256-OF-TOKEN" (see collector token)')
    .option('--insecure', 'do without TLS or tokens on any address')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector serve --listen 127.0.0.1:7443 --dir /srv/log\n  lineside collector serve --listen 0.0.0.0:7443 --dir /srv/log --tls-cert server.pem --tls-key server.key --tokens /srv/tokens\n',
    )
    .action((options: ServeOptions) => serve(options, io));
  addTokenCommand(collector, io);
  collector
    .command('read')
    .description('print what is stored, in order, each entry once; also while `collector serve` runs')
    .requiredOption('--dir <dir>', 'the directory of `collector serve`')
    .option('--device <id>', 'only this device')
    .option('--log <id>', 'only this log')
    .option('--json', 'a JSON object to a line, as `lineside log export --format jsonl` has them')
    .option('--base64', 'with --json: data as base64 instead of hex')
    .addOption(new Option('--view <view>', 'what to show of the data').choices(['hex', 'text', 'both']).default('both'))
    .option('--ids', 'show the ids')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector read --dir /srv/log --device box-7 --view text\n  lineside collector read --dir /srv/log --json | jq -r .hex\n',
    )
    .action(async (options: ReadOptions) => {
      const { readCommand } = await import('./read-command.ts');
      shell.setStatus(await readCommand(options, io));
    });
}

function addTokenCommand(collector: Command, io: CliIo): void {
  collector
    .command('token')
    .argument('<device-id>', 'device.id of the box')
    .description('let a box push: store the hash of a new token, and print the token once, as the last line')
    .requiredOption('--tokens <file>', 'the file of `collector serve --tokens`')
    .option('--revoke', 'end all its tokens instead, at once')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector token box-7 --tokens /srv/tokens\n  lineside collector token box-7 --tokens /srv/tokens --revoke\n',
    )
    .action(async (deviceId: string, { tokens, revoke }: { tokens: string; revoke?: boolean }) => {
      const { addDeviceToken, revokeDeviceTokens } = await import('./tokens.ts');
      if (revoke === true) {
        revokeDeviceTokens(tokens, deviceId);
        io.stdout.write(`all tokens of ${deviceId} were revoked\n`);
        return;
      }
      const token = addDeviceToken(tokens, deviceId);
      io.stdout.write(`${deviceId} may push with this token, which is shown only once:\n${token}\n`);
    });
}

async function serve(options: ServeOptions, io: CliIo): Promise<void> {
  const address = parseListen(options.listen, '/');
  if (typeof address === 'string' || address.kind !== 'tcp') {
    throw new LinesideError(
      'INVALID_ARGUMENT',
      `--listen: ${typeof address === 'string' ? address : 'must be host:port, a box cannot reach a Unix socket'}`,
    );
  }
  const logger = createLogger({
    write: (line) => void io.stderr.write(line),
    journal: io.env['JOURNAL_STREAM'] !== undefined,
    debug: io.env['LINESIDE_DEBUG'] !== undefined,
    wallMs: () => io.clock.wallMs(),
  });
  const stopped = Promise.withResolvers<string>();
  const unheard = (['SIGTERM', 'SIGINT'] as const).map((signal) => io.onSignal(signal, () => stopped.resolve(signal)));
  const { startCollector } = await import('./server.ts');
  const { host, port } = address;
  const none = { tlsCert: '', tlsKey: '', tokens: '', insecure: false };
  const collector = await startCollector({ ...none, ...options, host, port }, io.clock, logger);
  const shown = host.includes(':') ? `[${host}]` : host;
  logger.info('collector ready', { listen: `${shown}:${collector.port}`, dir: options.dir });
  const why = await stopped.promise;
  for (const unhear of unheard) unhear();
  logger.info('collector stopping', { why });
  await collector.stop();
  logger.info('collector stopped');
}
