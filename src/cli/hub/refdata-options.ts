/** Options and small texts that the commands of the hub have in common. */
import type { Command } from 'commander';
import { instantOfMs, parseInstant } from '../../shared/base/instant.ts';
import { usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { jsonLine } from '../output/json.ts';
import { localTime, parseWhen, systemZone, wholeNumber } from '../output/numbers.ts';
import type { AnyCall } from '../shell.ts';

export interface ReasonOption {
  readonly reason?: string;
}

export function withReason(command: Command): Command {
  return command.option('--reason <text>', 'why; kept with the change and told to consumers');
}

/** changeReason of a body, where one was given. */
export function reasonField({ reason }: ReasonOption): JsonObject {
  return reason === undefined ? {} : { changeReason: reason };
}

/** The same where the body holds something else, or there is none: its bytes are read as UTF-8; Node takes them as Latin-1. */
export function reasonHeader({ reason }: ReasonOption): Record<string, string> {
  if (reason === undefined) return {};
  if (/\p{Cc}/u.test(reason)) throw usageFailure('this reason is one line, with no control characters');
  return { 'x-change-reason': Buffer.from(reason, 'utf8').toString('latin1') };
}

/** Far more than a list on one box holds: the whole of it. */
export const wholeList = 1_000_000_000;

export function withLimit(command: Command, usual: string): Command {
  return command.option('--limit <n>', `at most so many (default: ${usual})`, wholeNumber(1, wholeList));
}

/** RFC 3339 or an age, as the interface takes it; microseconds are kept. */
export function instantArgument(text: string, nowMs: number): string {
  return parseInstant(text.replace(' ', 'T')) ?? instantOfMs(parseWhen(text, nowMs));
}

/** An instant for people: local time to the second, or as it is where it is none. */
export function timeText(instant: string): string {
  const ms = Date.parse(instant);
  if (Number.isNaN(ms)) return safeText(instant);
  const { date, time } = localTime(ms, systemZone);
  return `${date} ${time.replace(/\.\d+$/, '')}`;
}

/** One line for people, the whole answer for scripts. */
export async function tell(call: AnyCall<object>, answer: JsonObject, line: string): Promise<void> {
  await call.out.write(call.json ? jsonLine(answer) : `${line}\n`);
}
