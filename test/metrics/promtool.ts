/** Prometheus' own checker. */
import { spawnSync } from 'node:child_process';

const present = spawnSync('promtool', ['--version']).status === 0;
/** For the options of a test. */
export const skip = present ? false : "promtool is not installed (Debian's package prometheus)";

/** `input`: on its standard input. */
export function promtool(
  args: readonly string[],
  input = '',
): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8', timeout: 60_000 });
  return { status, output: stdout + stderr };
}
