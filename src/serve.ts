/** `lineside serve`: runs the service until a signal asks it to stop. */
import { parseArgs } from 'node:util';
import { systemClock } from './base/clock.ts';
import { asLinesideError, messageOf } from './base/errors.ts';
import { createLogger, type Logger } from './base/logger.ts';
import type { Config } from './config/config.ts';
import { load } from './config/load.ts';
import { endThreads, type LineProcess, startLine } from './line-process.ts';

const EXIT_OK = 0;
const EXIT_FAILED = 1;
/** Bad arguments or configuration: restarting does not help. */
const EXIT_USAGE = 2;

const USAGE = `usage: lineside serve [--config FILE]

Runs the service in the foreground until SIGTERM or SIGINT. FILE is TOML (default /etc/lineside/lineside.toml); every
key has an override in the environment, LINESIDE_SECTION_KEY. Exit status 2: bad arguments or configuration.
`;

export async function serve(argv: readonly string[], version: string): Promise<number> {
  const logger = createLogger({
    write: (line) => void process.stderr.write(line),
    journal: process.env.JOURNAL_STREAM !== undefined,
    debug: process.env.LINESIDE_DEBUG !== undefined,
    wallMs: () => systemClock.wallMs(),
  });
  const config = configure(argv);
  if (typeof config === 'number') return config;
  try {
    const stopped = stopAsked(logger);
    const line = await startLine(config, logger, version);
    logger.info('ready', { version, listen: line.addresses.join(' ') });
    const why = await stopped;
    logger.info('stopping', { why });
    const fromMs = systemClock.monoMs();
    const status = await stop(line, logger);
    await endThreads(status, systemClock.monoMs() - fromMs);
    return status;
  } catch (error) {
    const { message, hint, code } = asLinesideError(error);
    logger.error('cannot start', { error: message, ...(hint === '' ? {} : { hint }) });
    return code === 'CONFIG_INVALID' ? EXIT_USAGE : EXIT_FAILED;
  }
}

function configure(argv: readonly string[]): Config | number {
  try {
    const options = { config: { type: 'string' }, help: { type: 'boolean', short: 'h' } } as const;
    const { values } = parseArgs({ args: [...argv], options });
    if (values.help === true) {
      process.stdout.write(USAGE);
      return EXIT_OK;
    }
    return load(values.config, process.env).config;
  } catch (error) {
    const { message, hint } = asLinesideError(error);
    process.stderr.write(`lineside serve: ${message}${hint === '' ? '' : ` (${hint})`}\n`);
    return EXIT_USAGE;
  }
}

/** Resolves with the first signal, or with what went wrong where nobody was there to catch it; a second signal kills. */
function stopAsked(logger: Logger): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal));
    // Nobody knows what state it is in now: commit what there is, then let systemd start it anew.
    process.once('uncaughtException', (error) => {
      logger.error('unforeseen failure, stopping', { error: error.stack ?? messageOf(error) });
      process.exitCode = EXIT_FAILED;
      resolve('unforeseen failure');
    });
  });
}

async function stop(line: LineProcess, logger: Logger): Promise<number> {
  const failed = process.exitCode === EXIT_FAILED;
  try {
    await line.stop();
    logger.info('stopped');
    return failed ? EXIT_FAILED : EXIT_OK;
  } catch (error) {
    logger.error('stopped with failures', { error: messageOf(error) });
    return EXIT_FAILED;
  }
}
