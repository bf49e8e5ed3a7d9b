/** What the operator's log says of the port: one line for each change that matters, not one for each attempt. */
import type { Logger } from '../../shared/base/logger.ts';
import type { State } from './state.ts';

export function reportStep(logger: Logger, before: State, now: State, device: string): void {
  if (before.kind === now.kind) return;
  if (now.kind === 'open') {
    const { portName, baudRate } = now.target.config;
    logger.info('port open', { port: portName, device, baud: baudRate });
  } else if (now.kind === 'lost') {
    const what = lostText(before, now.attempt);
    if (what !== undefined) logger.warn(what, { port: now.target.config.portName, error: now.error.message });
  } else if (now.kind === 'closed') {
    logger.info('port closed');
  }
}

/** undefined: an attempt like those before it. */
function lostText(before: State, attempt: number): string | undefined {
  if (before.kind !== 'reopening') return 'port lost, waiting for it to return';
  return attempt === 1 ? 'port cannot be opened yet, trying again' : undefined;
}
