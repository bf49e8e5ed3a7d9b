/** The alerts that fire now. */
import type { JSX } from 'preact';
import type { Alert } from '../../shared/gen/http.ts';
import { durationText } from '../format.ts';
import { useLoaded } from './loading.ts';
import { ProblemBox, Section } from './parts.tsx';

const EVERY_MS = 10_000;

export function AlertList(): JSX.Element {
  const { value, isFresh, problem } = useLoaded<{ readonly items: readonly Alert[] }>('/api/v1/alerts', EVERY_MS);
  return (
    <Section title="Alerts" class="alerts">
      <ProblemBox problem={problem} />
      {isFresh && value?.items.length === 0 && <p class="good">Nothing is wrong.</p>}
      {value !== undefined && value.items.length > 0 && (
        <ul class="plain">
          {value.items.map((alert) => (
            <li key={`${alert.name} ${alert.summary}`}>
              <span
                class={`badge ${alert.severity === 'info' ? 'idle' : alert.severity === 'warning' ? 'warn' : 'bad'}`}
              >
                {alert.severity}
              </span>{' '}
              <strong>{alert.name}</strong> {alert.summary}{' '}
              <span class="note">for {durationText(alert.forSeconds)}</span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
