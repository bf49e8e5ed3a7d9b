/** Checks a file that was too large to be checked before it was opened, beside its writer. Runs as a worker thread. */
import { messageOf, systemCode } from '../base/errors.ts';
import { closeQuietly, openReadOnly, quickCheck } from './open.ts';
import { serve } from './worker-serve.ts';

export interface CheckCalls {
  /** '' when sound, else what was found. */
  check: { request: { readonly path: string }; response: string };
}

serve<CheckCalls>({
  check({ path }) {
    const connection = openReadOnly(path);
    try {
      return { value: quickCheck(connection) };
    } catch (error) {
      if (/^SQLITE_(CORRUPT|NOTADB)/.test(systemCode(error))) return { value: messageOf(error) };
      throw error;
    } finally {
      closeQuietly(connection);
    }
  },
});
