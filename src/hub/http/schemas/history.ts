/** The shapes of the line's history. Pure. */
import { type TSchema, Type } from '@sinclair/typebox';
import { gapReasons } from '../../history/series.ts';
import { choice, count, exact, orNull } from './shapes.ts';

/** Of an answer: a chart has room for fewer. */
export const MAX_HISTORY_STEPS = 2_000;
const MAX_STEP_S = 86_400;

const instant = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 8.64e15, description: `${description}, Unix milliseconds.` }));

export const HistoryQuery = exact({
  lastS: Type.Optional(
    Type.Integer({
      minimum: 60,
      maximum: 366 * 86_400,
      default: 3_600,
      description: 'Length of the span in seconds; instead of sinceMs.',
    }),
  ),
  sinceMs: instant('Begin of the span'),
  untilMs: instant('End of the span; default: now'),
  stepS: Type.Optional(
    Type.Integer({
      minimum: 60,
      maximum: MAX_STEP_S,
      description: `Seconds of each step, a multiple of 60, of fewer than ${MAX_HISTORY_STEPS} steps; default: a usual one of which the span has at most 400.`,
    }),
  ),
});

const orUnknown = Type.Union([Type.Number(), Type.Null()]);

/** A value for each step. */
function series(description: string, value: TSchema = orUnknown) {
  return Type.Array(value, { description, maxItems: MAX_HISTORY_STEPS });
}

export const historyComponents = {
  LineHistory: exact({
    fromMs: Type.Integer({ description: 'Begin of the first step, Unix milliseconds; a multiple of the step.' }),
    untilMs: Type.Integer({ description: 'End of the span that was asked for.' }),
    nowMs: Type.Integer({ description: 'The clock of the box.' }),
    stepS: count('Seconds of each step.'),
    firstMs: orNull(Type.Integer(), 'Begin of the oldest minute that is known; null: none is.'),
    isClockVerified: Type.Boolean({ description: 'Whether the clock of the box was set in all of these times.' }),
    fault: Type.String({ description: 'Why hours are not stored now; empty: they are.' }),
    gaps: Type.Array(
      exact({
        fromMs: Type.Integer(),
        untilMs: Type.Integer(),
        reason: choice(
          gapReasons,
          'boxOff: the box was off (it may have lost up to an hour before); serviceStopped: the service did not run.',
        ),
      }),
      { description: 'Times of which nothing is known, between two that are known; the newest 100.' },
    ),
    upS: series('Seconds in which the hub ran; 0: nothing is known of the step.', Type.Number()),
    lineS: series('Seconds in which the line answered.'),
    portOpenS: series('Seconds in which the port was open.'),
    rxBytes: series('Bytes received.'),
    txBytes: series('Bytes sent.'),
    rxDroppedPackets: series('Received packets dropped because no client fetched them.'),
    errors: series('Framing errors, parity errors, overruns and packets that failed.'),
    reconnects: series('Times that the port was lost.'),
    temperatureMinCelsius: series('Lowest temperature of the processor.'),
    temperatureMeanCelsius: series('Mean temperature of the processor.'),
    temperatureMaxCelsius: series('Highest temperature of the processor.'),
    cardWrittenBytes: series('Bytes written to the card.'),
  }),
} as const;
