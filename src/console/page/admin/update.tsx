/** The two slots of the card, and the update in one of them. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UpdateState } from '../../../shared/gen/http.ts';
import { text } from '../../text.ts';
import { useLoaded } from '../loading.ts';
import { Answer, type Fact, Facts, Section } from '../parts.tsx';

const say = text.administration.update;
/** A trial takes minutes; each request starts a program on the box. */
const TRIAL_EVERY_MS = 15_000;

export function Update(): JSX.Element {
  const [isWatched, setWatched] = useState(false);
  const state = useLoaded<UpdateState>('/api/v1/admin/update', isWatched ? TRIAL_EVERY_MS : 0);
  const isTried = typeof state.value?.trying === 'string';
  useEffect(() => setWatched(isTried), [isTried]);
  const { problem } = state;
  return (
    <Section title={say.title}>
      {problem?.code === 'UNSUPPORTED' ? (
        <>
          <p>{problem.detail}</p>
          <p class="hint">{problem.hint}</p>
        </>
      ) : (
        <Answer of={state}>{(value) => <Facts of={slots(value)} />}</Answer>
      )}
    </Section>
  );
}

function slots(state: UpdateState): Fact[] {
  return [
    [say.version, state.version],
    [say.running, state.running],
    [say.good, state.good],
    [say.state, stateText(state), state.failed === null ? undefined : 'bad'],
  ];
}

function stateText({ running, good, trying, triesLeft, failed }: UpdateState): string {
  if (failed !== null) return say.failed(failed, good);
  if (trying === null) return say.kept;
  return trying === running ? say.onTrial(good, String(triesLeft)) : say.waits(trying);
}
