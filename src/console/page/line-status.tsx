/** The state of the line: one request for all parts that show it. */
import { createContext, type JSX } from 'preact';
import { useContext } from 'preact/hooks';
import type { LineStatus } from '../../shared/gen/http.ts';
import { durationText } from '../format.ts';
import { settingsText } from '../line/settings.ts';
import { text } from '../text.ts';
import { type Loaded, useLoaded } from './loading.ts';

const EVERY_MS = 2_000;

export const LineContext = createContext<Loaded<LineStatus> | undefined>(undefined);

export function useLineStatus(may: boolean): Loaded<LineStatus> | undefined {
  const loaded = useLoaded<LineStatus>(may ? '/api/v1/line' : '', EVERY_MS);
  return may ? loaded : undefined;
}

export function useLine(): Loaded<LineStatus> {
  const line = useContext(LineContext);
  if (line === undefined) throw new Error('the line is shown to a user who may not see it');
  return line;
}

export function portWords(state: LineStatus['portState']): string {
  return text.shell.portStates[state];
}

export function PortBadge(): JSX.Element | null {
  const line = useContext(LineContext);
  if (line === undefined) return null;
  const { value, problem, isFresh } = line;
  const isAsking = value === undefined && problem === undefined;
  const state = (isFresh && value?.portState) || 'unknown';
  const look = isAsking ? 'idle' : state === 'open' ? 'good' : state === 'lost' || state === 'unknown' ? 'bad' : 'idle';
  return (
    <span class={`badge ${look}`} role="status">
      <span class="unseen">{text.shell.port} </span>
      {isAsking ? text.shell.asking : state === 'unknown' ? text.shell.noAnswer : portWords(state)}
    </span>
  );
}

/** What the line runs with, and when the last byte came and went: of an answer that is not old. */
export function LinePulse(): JSX.Element | null {
  const line = useContext(LineContext);
  if (line?.value === undefined || !line.isFresh) return null;
  const { effective, counters, receivedAgeMs, sentAgeMs } = line.value;
  return (
    <span class="pulse">
      {effective && <span>{settingsText(effective)}</span>}
      <span>{text.shell.received(agoText(counters.rxBytes, receivedAgeMs))}</span>
      <span>{text.shell.sent(agoText(counters.txBytes, sentAgeMs))}</span>
    </span>
  );
}

function agoText(bytes: number, ageMs: number): string {
  return bytes === 0 ? text.shell.nothingYet : text.shell.ago(durationText(ageMs / 1_000));
}
