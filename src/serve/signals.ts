/** What signals ask of a process of the service: to stop, or to reload its configuration. */
import { messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';

/** SIGHUP, also while the start is under way: it is followed then when that is done. One reload at a time. */
export function heardHangups(askToStop: (why: string) => void): { onEach(call: () => Promise<void>): void } {
  // A terminal that is closed is no wish for another configuration.
  if (process.stderr.isTTY) {
    process.once('SIGHUP', () => askToStop('SIGHUP'));
    return { onEach() {} };
  }
  let isAsked = false;
  let calling: Promise<void> | undefined;
  let call: (() => Promise<void>) | undefined;
  const next = (): void => {
    if (!isAsked || call === undefined || calling !== undefined) return;
    isAsked = false;
    calling = call().finally(() => {
      calling = undefined;
      next();
    });
  };
  process.on('SIGHUP', () => {
    isAsked = true;
    next();
  });
  return {
    onEach(given) {
      call = given;
      next();
    },
  };
}

interface StopAsked {
  /** With the first signal, or with an error that nothing caught; a second signal kills. */
  readonly stopped: Promise<string>;
  readonly stop: (why: string) => void;
}

export function stopAsked(logger: Logger, who: string): StopAsked {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop(signal));
  // Its state is not known now: commit what there is, then let systemd restart it.
  process.once('uncaughtException', (error) => {
    logger.error(`${who}unforeseen failure, stopping`, { error: error.stack ?? messageOf(error) });
    process.exitCode = 1;
    stop('unforeseen failure');
  });
  return { stopped, stop };
}
