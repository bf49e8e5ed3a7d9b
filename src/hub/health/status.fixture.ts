/** A line that is well: no number is another's, so that none can be taken for another. */
import { type LineNumbers, statusJson } from '../../shared/proto/line-status.ts';
import { lineside } from '../../shared/proto/services.ts';

const { ClockState, LogState, PortState } = lineside.v1;

let last = 100;
const next = (): number => {
  last += 1;
  return last;
};

export const anyStatus: LineNumbers = statusJson(
  {
    portState: PortState.PORT_STATE_OPEN,
    kernel: { frame: 1, overrun: 2, parity: 3, brk: 4, bufOverrun: 5, rx: 6, tx: 7 },
    log: { state: LogState.LOG_STATE_OK },
    subscribers: 8,
    clock: { state: ClockState.CLOCK_STATE_SET },
  },
  next,
);

/** It with other counters, another log. */
export function statusWith(
  counters: Partial<LineNumbers['counters']>,
  log: Partial<LineNumbers['log']> = {},
): LineNumbers {
  return { ...anyStatus, counters: { ...anyStatus.counters, ...counters }, log: { ...anyStatus.log, ...log } };
}
