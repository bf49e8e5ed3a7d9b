import { BurstLog } from '../base/burst-log.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';

/** Refused callers. */
export class AuthFailureLog extends BurstLog {
  constructor(clock: Clock, logger: Logger) {
    super(clock, logger, 'refused a caller', 'refusals');
  }

  /** `method`: a gRPC method, or an HTTP method and the pattern of its route. */
  note(method: string, peer: string, reason: string): void {
    this.add({ peer, method, reason });
  }
}
