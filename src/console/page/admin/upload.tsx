/** A file of the browser's device for the box, which checks it; and how far the box is that works on it afterwards. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { AdminWork } from '../../../shared/gen/http.ts';
import { sizeText } from '../../format.ts';
import { localProblem, type Problem, ProblemError } from '../../problem.ts';
import { text } from '../../text.ts';
import { type Loaded, useDoing, useLoaded } from '../loading.ts';
import { Button, Field, ProblemBox } from '../parts.tsx';
import { isCancel } from '../save-file.ts';
import { useSession } from '../session.ts';

const say = text.administration.upload;
/** The box's own limit (src/admin/verbs.ts). */
const MAX_UPLOAD_BYTES = 400 * 1_024 * 1_024;
/** Above the turn that the helper waits for. */
const PATIENCE_MS = 40_000;
const WORK_EVERY_MS = 2_000;

export function UploadForm(props: {
  label: string;
  action: string;
  /** What to do with a file that is too large. */
  tooLargeHint: string;
  /** Another file is chosen, or the upload begins: what was found in the one before does not count any more. */
  onChoose: () => void;
  /** Resolves when the box has checked the file. */
  send: (file: File, onProgress: (bytes: number) => void, signal: AbortSignal) => Promise<void>;
}): JSX.Element {
  const { label, action, tooLargeHint, onChoose, send } = props;
  const { api } = useSession();
  const doing = useDoing();
  const [file, choose] = useState<File>();
  const [fault, setFault] = useState('');
  /** undefined: nothing was sent yet. */
  const [sent, setSent] = useState<number>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const upload = async (chosen: File): Promise<void> => {
    const own = new AbortController();
    stop.current = own;
    onChoose();
    setSent(undefined);
    const bytes = chosen.size;
    if (bytes > MAX_UPLOAD_BYTES)
      throw new ProblemError(localProblem(say.tooLarge(sizeText(MAX_UPLOAD_BYTES)), sizeText(bytes), tooLargeHint));
    try {
      // Before the first byte: a browser reads no reason while it sends.
      await api.send('POST', '/api/v1/admin/uploads', { body: { bytes }, patienceMs: PATIENCE_MS, signal: own.signal });
      await send(chosen, setSent, own.signal);
    } catch (error) {
      if (!own.signal.aborted && !isCancel(error)) throw error;
    }
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    setFault(file === undefined ? say.none : file.size === 0 ? say.empty : '');
    if (file !== undefined && file.size > 0) void doing.run(() => upload(file));
  };
  return (
    <form onSubmit={submit} noValidate>
      <ProblemBox problem={refused(doing.problem)} />
      <Field label={label} hint={say.hint(sizeText(MAX_UPLOAD_BYTES))} fault={fault}>
        {(attributes) => (
          <input
            {...attributes}
            type="file"
            disabled={doing.busy}
            onChange={(event) => {
              choose(event.currentTarget.files?.[0]);
              onChoose();
            }}
          />
        )}
      </Field>
      <div class="buttons">
        <button type="submit" disabled={doing.busy}>
          {doing.busy ? say.running : action}
        </button>
        {doing.busy && <Button text={text.parts.cancel} onClick={() => stop.current?.abort()} />}
      </div>
      {doing.busy && file !== undefined && <Sent bytes={sent ?? 0} of={file.size} />}
    </form>
  );
}

/** The usual titles are of requests, not of files. */
const refused = (problem: Problem | undefined): Problem | undefined =>
  problem === undefined || problem.status === 0 ? problem : { ...problem, title: say.refused };

function Sent({ bytes, of }: { bytes: number; of: number }): JSX.Element {
  // What the browser adds to the file is counted too.
  const isSent = bytes >= of;
  return (
    <div class="progress">
      <progress {...(!isSent && { max: of, value: bytes })} aria-label={say.progress} />
      <span role="status">{isSent ? say.checking : say.soFar(sizeText(bytes), sizeText(of))}</span>
    </div>
  );
}

/** What the box does with a file that was given to it; `isBegun`: this page has begun it. */
export function useWork(
  of: keyof AdminWork,
  isBegun: boolean,
): Loaded<AdminWork> & { readonly own: AdminWork['update'] } {
  const [isRunning, setRunning] = useState(false);
  const work = useLoaded<AdminWork>('/api/v1/admin/work', isRunning || isBegun ? WORK_EVERY_MS : 0);
  const own = work.value?.[of] ?? null;
  useEffect(() => setRunning(own?.state === 'running'), [own?.state]);
  return { ...work, own };
}

export function WorkProgress({
  of,
  steps,
}: {
  of: NonNullable<AdminWork['update']>;
  steps: object;
}): JSX.Element | null {
  const { state, step, percent, error, hint } = of;
  if (state === 'failed') return <ProblemBox problem={localProblem(say.failed, error, hint)} />;
  if (state === 'aborted') return <ProblemBox problem={localProblem(say.aborted, say.abortedWhy)} />;
  if (state === 'done') return null;
  const words = (steps as Readonly<Record<string, string>>)[step] ?? (step || say.beginning);
  return (
    <div class="progress">
      <progress max={100} value={percent} aria-label={say.workProgress} />
      <span role="status">{say.step(words, percent)}</span>
    </div>
  );
}
