/** Checks a log.db that was too large to be checked before the log opened, beside the log worker. Runs as a worker thread. */
import { join } from 'node:path';
import { messageOf } from '../base/errors.ts';
import { closeQuietly, openReadOnly, quickCheck } from '../storage/open.ts';
import { serve } from '../storage/worker-serve.ts';
import { isDamage } from './damage.ts';
import { logFileName } from './open-store.ts';

export interface CheckCalls {
  /** '' when sound, else what was found. */
  check: { request: { readonly dir: string }; response: string };
}

serve<CheckCalls>({
  check({ dir }) {
    const connection = openReadOnly(join(dir, logFileName));
    try {
      return { value: quickCheck(connection) };
    } catch (error) {
      if (isDamage(error)) return { value: messageOf(error) };
      throw error;
    } finally {
      closeQuietly(connection);
    }
  },
});
