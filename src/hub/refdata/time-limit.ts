/** Runs a plain function that may take too long, and ends it when it does: checks against a schema that someone else wrote. */
import { createContext, Script } from 'node:vm';
import { systemCode } from '../../shared/base/errors.ts';

const script = new Script('run()');
const context = createContext({ run: undefined });

/**
 * The function's result; undefined: it was ended after limitMs, wherever it was. So it must own what it works on, and
 * answer something. Costs a watchdog thread: about 0.1 ms.
 */
export function withinMs<T extends object>(limitMs: number, run: () => T): T | undefined {
  let result: T | undefined;
  context['run'] = (): void => {
    result = run();
  };
  try {
    script.runInContext(context, { timeout: limitMs });
  } catch (error) {
    if (systemCode(error) !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    return undefined;
  } finally {
    context['run'] = undefined;
  }
  return result;
}
