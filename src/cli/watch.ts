/** A view of the service once, or again and again (--watch). */
import { pause } from '../shared/base/clock.ts';
import { type Given, option } from './command.ts';
import { secondsAsMs } from './output/numbers.ts';
import type { Call } from './shell.ts';

export type WatchOptions = Given<readonly [typeof watch]>;

const usualWatchMs = 1000;
/** Ten views a second are as many as a person can follow, and cost the service next to nothing. */
const leastSeconds = 0.1;
export const watch = option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', {
  parse: secondsAsMs(86_400, leastSeconds),
});

export function isWatched({ watch }: WatchOptions): boolean {
  return watch !== undefined;
}

/** Cursor to the top left, and everything below it cleared. */
const clearScreen = '\x1b[H\x1b[J';

/** `show` writes its `lead`, then the view, and answers the exit status of a single one. */
export async function watched(call: Call<WatchOptions>, show: (lead: string) => Promise<number>): Promise<number> {
  const { watch } = call.options;
  if (watch === undefined) return show('');
  const everyMs = watch === true ? usualWatchMs : watch;
  const lead = call.out.isTerminal && !call.json ? clearScreen : '';
  for (;;) {
    await show(lead);
    if (lead === '' && !call.json) await call.out.write('\n');
    await pause(call.io.clock, everyMs, call.stop);
    call.stop.throwIfAborted();
  }
}
