/** The two slots of the card, and the update of one of them: uploaded, installed, tried. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { UpdateBundle, UpdateState } from '../../../shared/gen/http.ts';
import { instantText } from '../../format.ts';
import type { Problem } from '../../problem.ts';
import { text } from '../../text.ts';
import { useDoing, useLoaded } from '../loading.ts';
import { Answer, Button, Dialog, Done, type Fact, Facts, Form, ProblemBox, Section } from '../parts.tsx';
import { useSession } from '../session.ts';
import { UploadForm, useWork, WorkProgress } from './upload.tsx';

const say = text.administration.update;
/** A trial takes minutes; each request starts a program on the box. */
const TRIAL_EVERY_MS = 15_000;
/** The helper starts a unit, or a program. */
const PATIENCE_MS = 90_000;

export function Update(): JSX.Element {
  const [isWatched, setWatched] = useState(false);
  const state = useLoaded<UpdateState>('/api/v1/admin/update', isWatched ? TRIAL_EVERY_MS : 0);
  const isTried = typeof state.value?.trying === 'string';
  useEffect(() => setWatched(isTried), [isTried]);
  const { problem } = state;
  return (
    <Section title={say.title}>
      {problem?.code === 'UNSUPPORTED' ? (
        <Unsupported problem={problem} />
      ) : (
        <Answer of={state}>
          {(value) => (
            <>
              <Facts of={slots(value)} />
              <Install state={value} onInstalled={state.reload} />
            </>
          )}
        </Answer>
      )}
    </Section>
  );
}

/** No fault: another kind of box. */
export function Unsupported({ problem: { detail, hint } }: { problem: Problem }): JSX.Element {
  return (
    <>
      <p>{detail}</p>
      <p class="hint">{hint}</p>
    </>
  );
}

function Install({ state, onInstalled }: { state: UpdateState; onInstalled: () => void }): JSX.Element {
  const { api } = useSession();
  const doing = useDoing();
  const [bundle, setBundle] = useState<UpdateBundle>();
  const [isBegun, setBegun] = useState(false);
  const { own: work, reload } = useWork('update', isBegun);
  const outcome = work?.state;
  useEffect(() => {
    if (outcome === undefined || outcome === 'running') return;
    setBegun(false);
    if (outcome === 'done') onInstalled();
  }, [outcome]);
  const install = (sha256: string): void =>
    void doing.run(async () => {
      await api.send('POST', '/api/v1/admin/update/install', { body: { sha256 }, patienceMs: PATIENCE_MS });
      setBundle(undefined);
      setBegun(true);
      reload();
    });
  const isWorking = isBegun || outcome === 'running';
  const waits = state.trying !== null && state.trying !== state.running;
  return (
    <>
      <p class="note">{say.about}</p>
      {work !== null && <WorkProgress of={work} steps={say.steps} />}
      <Done>{outcome === 'done' && !isWorking ? say.installed(work?.result ?? '') : ''}</Done>
      {waits && !isWorking && <Restart />}
      {!isWorking && !state.onTrial && (
        <UploadForm
          label={say.bundle}
          action={say.upload}
          tooLargeHint={say.tooLargeHint}
          onChoose={() => setBundle(undefined)}
          send={async (...sent) => setBundle(await api.upload<UpdateBundle>('/api/v1/admin/update/bundle', ...sent))}
        />
      )}
      <ProblemBox problem={doing.problem} />
      {bundle !== undefined && (
        <>
          <p role="status">{say.found(bundle.version, bundle.slot, instantText(bundle.builtAt))}</p>
          <Button
            class="main"
            text={say.install(bundle.version)}
            disabled={doing.busy}
            onClick={() => install(bundle.sha256)}
          />
        </>
      )}
    </>
  );
}

function Restart(): JSX.Element {
  const { api } = useSession();
  const doing = useDoing();
  const [isAsking, setAsking] = useState(false);
  const [done, setDone] = useState('');
  const submit = (): void =>
    void doing.run(async () => {
      await api.send('POST', '/api/v1/admin/update/try', { patienceMs: PATIENCE_MS });
      setDone(say.restarting);
      setAsking(false);
    });
  return (
    <>
      <div class="buttons">
        <Button text={say.restart} class="main" onClick={() => setAsking(true)} />
      </div>
      <Done>{done}</Done>
      {isAsking && (
        <Dialog title={say.restartTitle} onClose={() => setAsking(false)}>
          <Form doing={doing} action={say.restartAction} danger={true} onSubmit={submit}>
            <p>{say.restartQuestion}</p>
          </Form>
        </Dialog>
      )}
    </>
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
