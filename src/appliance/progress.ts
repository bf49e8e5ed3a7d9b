/** How far a long command has come: lines for a person, a file for the console. */
import type { LocalShell } from '../cli/cli.ts';
import { WorkFile } from '../shared/base/work-state.ts';

export type OnProgress = (what: string, doneBytes: number, ofBytes: number) => void;

/** A line for each tenth, readable where the output is a file too. */
export function tenths(out: { write(text: string): unknown }): OnProgress {
  let last = '';
  return (what, done, of) => {
    const line = `${what}: ${of === 0 ? 100 : Math.floor((10 * done) / of) * 10} %\n`;
    if (line !== last) out.write(line);
    last = line;
  };
}

export const stateFileOption = [
  '--state-file <file>',
  'keep the progress and the outcome in this file, as JSON',
] as const;

/** `file`: of --state-file. `work` answers its outcome in a few words. */
export async function reported(
  { io }: LocalShell,
  file: string | undefined,
  work: (onProgress: OnProgress) => Promise<string>,
): Promise<void> {
  const say = tenths(io.stderr);
  const state = file === undefined ? undefined : new WorkFile(file, io.clock);
  try {
    const result = await work((...progress) => {
      say(...progress);
      state?.progress(...progress);
    });
    state?.done(result);
  } catch (error) {
    state?.failed(error);
    throw error;
  }
}
