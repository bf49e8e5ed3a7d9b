/** The alerts that fire now: one request for all parts that show them. */
import { createContext, type JSX } from 'preact';
import { useContext } from 'preact/hooks';
import type { Alert } from '../../shared/gen/http.ts';
import { durationText } from '../format.ts';
import { text } from '../text.ts';
import { hashOf } from '../views.ts';
import { type Loaded, useLoaded } from './loading.ts';
import { ProblemBox, Section } from './parts.tsx';

const EVERY_MS = 10_000;

type Alerts = Loaded<{ readonly items: readonly Alert[] }>;
export const AlertContext = createContext<Alerts | undefined>(undefined);

export function useAlerts(may: boolean): Alerts | undefined {
  const loaded = useLoaded<{ readonly items: readonly Alert[] }>(may ? '/api/v1/alerts' : '', EVERY_MS);
  return may ? loaded : undefined;
}

const looks = { info: 'idle', warning: 'warn', critical: 'bad' } as const;

/** How many there are, with the way to them. */
export function AlertLink(): JSX.Element | null {
  const alerts = useContext(AlertContext);
  if (alerts === undefined) return null;
  const { value, isFresh } = alerts;
  const items = (isFresh && value?.items) || undefined;
  const worst = (['critical', 'warning'] as const).find((one) => items?.some(({ severity }) => severity === one));
  return (
    <a class={`badge ${looks[worst ?? 'info']}`} href={hashOf('health')}>
      <span>{items === undefined ? text.alerts.unknown : text.alerts.count(items.length)}</span>
    </a>
  );
}

export function AlertList(): JSX.Element | null {
  const alerts = useContext(AlertContext);
  if (alerts === undefined) return null;
  const { value, isFresh, problem } = alerts;
  return (
    <Section title={text.alerts.title} class="alerts">
      <ProblemBox problem={problem} />
      {isFresh && value?.items.length === 0 && <p>{text.alerts.none}</p>}
      {value !== undefined && value.items.length > 0 && (
        <ul class="plain">
          {value.items.map((alert) => (
            <li key={`${alert.name} ${alert.summary}`}>
              <span class={`badge ${looks[alert.severity]}`}>{text.alerts.severities[alert.severity]}</span>{' '}
              <strong>{alert.summary}</strong> <small>{alert.name}</small>{' '}
              <span class="note">{text.alerts.since(durationText(alert.forSeconds))}</span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
