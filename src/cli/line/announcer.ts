import { failureLine } from '../failure.ts';
import type { Call } from '../shell.ts';
import type { ReaderEvents } from './reader.ts';

/** What happens to the connection, on standard error. */
export function announcer(call: Call<object>, outcome: { lost: boolean }): ReaderEvents {
  return {
    broken: (failure) => call.err.write(`lineside: connection lost: ${failure.message}. Trying again.\n`),
    restored: () => call.err.write('lineside: connected again.\n'),
    lost: async (failure) => {
      outcome.lost = true;
      await call.err.write(failureLine(failure.during('entries are gone')));
    },
  };
}
