/** Rows of the outbox that cannot be published: to be sent again, or given up. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { countText, instantText } from '../format.ts';
import type { DeadLetter, Page } from '../shapes.ts';
import { usePaged } from './loading.ts';
import { focusHeading, ListEnd, ProblemBox, Section } from './parts.tsx';
import { ReasonDialog } from './reason-dialog.tsx';
import { useSession } from './session.ts';

const PATH = '/api/v1/admin/outbox/dead-letters';
const EVERY_MS = 5_000;

export function DeadLetters(): JSX.Element {
  const { api } = useSession();
  const [asked, ask] = useState<{ letter: DeadLetter; step: 'requeue' | 'discard' }>();
  const [done, setDone] = useState('');
  const letters = usePaged<DeadLetter>('dead letters', EVERY_MS, (cursor, signal) =>
    api.get<Page<DeadLetter>>(
      `${PATH}?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      signal,
    ),
  );
  const run = async (reason: string): Promise<void> => {
    if (asked === undefined) return;
    const { letter, step } = asked;
    await api.send('POST', `${PATH}/${letter.id}/${step}`, { body: { changeReason: reason } });
    setDone(`Dead letter ${letter.id} ${step === 'requeue' ? 'waits again' : 'was discarded'}.`);
    letters.reload();
    // The button that was pressed goes with its letter.
    queueMicrotask(focusHeading);
  };
  return (
    <Section title="Dead letters">
      <ProblemBox problem={letters.problem} />
      <p role="status" class="good">
        {done}
      </p>
      <ul class="items">
        {letters.items?.map((letter) => (
          <li key={letter.id}>
            <span class="mono">
              {letter.dictionary}:{letter.businessKey}
            </span>{' '}
            <span class="note">
              {letter.action}, given up {instantText(letter.diedAt)} after {countText(letter.attempts)} refusals
            </span>
            <p>{letter.reason}</p>
            <div class="buttons">
              <button
                type="button"
                aria-label={`Send ${letter.businessKey} again`}
                onClick={() => ask({ letter, step: 'requeue' })}
              >
                Send again…
              </button>
              <button
                type="button"
                aria-label={`Discard ${letter.businessKey}`}
                onClick={() => ask({ letter, step: 'discard' })}
              >
                Discard…
              </button>
            </div>
          </li>
        ))}
      </ul>
      <ListEnd count={letters.items?.length} hasMore={letters.hasMore} onMore={letters.more} none="There are none." />
      {asked !== undefined && (
        <ReasonDialog
          title={asked.step === 'requeue' ? 'Send again' : 'Discard'}
          text={
            asked.step === 'requeue'
              ? `${asked.letter.dictionary}:${asked.letter.businessKey} is put among the waiting rows again.`
              : `The event of ${asked.letter.dictionary}:${asked.letter.businessKey} will be discarded permanently. The change itself stays.`
          }
          action={asked.step === 'requeue' ? 'Send again' : 'Discard permanently'}
          danger={asked.step === 'discard'}
          run={run}
          onClose={() => ask(undefined)}
        />
      )}
    </Section>
  );
}
