/** What is wrong now. */
import type { JSX } from 'preact';
import { durationText } from '../format.ts';
import type { Alert, Page } from '../shapes.ts';
import { useLoaded } from './loading.ts';
import { ProblemBox, Section } from './parts.tsx';
import { useSession } from './session.ts';

const EVERY_MS = 10_000;

export function AlertList(): JSX.Element {
  const { api } = useSession();
  const { value, isFresh, problem } = useLoaded('alerts', EVERY_MS, (signal) =>
    api.get<Page<Alert>>('/api/v1/alerts', signal),
  );
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
