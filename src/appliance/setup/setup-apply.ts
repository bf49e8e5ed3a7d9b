/**
 * `lineside setup apply` as the start of a box calls it. main.ts loads this alone: the whole command line takes a board longer
 * to load than the set-up takes, and everything waits for it.
 */
import { parseArgs } from 'node:util';
import { systemClock } from '../../shared/base/clock.ts';
import { asLinesideError, messageOf } from '../../shared/base/errors.ts';
import { Box } from '../box.ts';
import { realDisk } from '../disk.ts';
import { settleErrors } from './card-writes.ts';
import { applySetup } from './setup.ts';

const EXIT_OK = 0;
const EXIT_FAILED = 1;

interface ApplyOptions {
  readonly boot: string;
  readonly root: string;
}

/** The exit status; undefined: other arguments than --boot and --root, which the command line explains. */
export function setupAtStart(argv: readonly string[]): number | undefined {
  const options = optionsIn(argv);
  if (options === undefined) return undefined;
  try {
    applyFiles(options);
    return EXIT_OK;
  } catch (error) {
    const { message, hint } = asLinesideError(error);
    process.stderr.write(`lineside: ${message}${hint === '' ? '' : ` (${hint})`}\n`);
    return EXIT_FAILED;
  }
}

function optionsIn(argv: readonly string[]): ApplyOptions | undefined {
  const options = { boot: { type: 'string' }, root: { type: 'string', default: '/' } } as const;
  try {
    const { boot, root } = parseArgs({ args: [...argv], options }).values;
    return boot === undefined ? undefined : { boot, root };
  } catch {
    return undefined;
  }
}

export function applyFiles({ boot, root }: ApplyOptions): void {
  const log = (line: string): void => void process.stdout.write(`setup: ${line}\n`);
  const parts = { boot, box: new Box(root), disk: realDisk, clock: systemClock, log };
  try {
    applySetup(parts);
  } catch (error) {
    // A box may have no other way to report it.
    settleErrors(parts, [messageOf(error)]);
    throw error;
  }
}
