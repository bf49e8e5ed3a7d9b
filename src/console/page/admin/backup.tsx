/** A backup of the box for the user: made on the box, then saved piece by piece. */
import type { JSX } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import { sizeText } from '../../format.ts';
import { localProblem, ProblemError } from '../../problem.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { useDoing } from '../loading.ts';
import { Button, Done, ProblemBox, Section } from '../parts.tsx';
import { isCancel, openSink, type Sink } from '../save-file.ts';
import { BoxContext, useSession } from '../session.ts';

const say = text.administration.backup;

interface Saving {
  /** 0: the box still makes the file. */
  readonly ofBytes: number;
  readonly bytes: number;
}

export function Backup(): JSX.Element {
  const { api } = useSession();
  const box = useContext(BoxContext);
  const doing = useDoing();
  const [withLog, setWithLog] = useState(true);
  const [saving, setSaving] = useState<Saving>({ bytes: 0, ofBytes: 0 });
  const [done, setDone] = useState('');
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const save = async (): Promise<void> => {
    const own = new AbortController();
    stop.current = own;
    setDone('');
    setSaving({ bytes: 0, ofBytes: 0 });
    try {
      const sink = await openSink(`${box?.name ?? 'lineside'}.backup`);
      const bytes = await saveBackup(api, sink, withLog, own.signal, setSaving);
      setDone(say.saved(sizeText(bytes), sink.name));
    } catch (error) {
      if (!own.signal.aborted && !isCancel(error)) throw error;
      setDone(say.cancelled);
    }
  };
  const { bytes, ofBytes } = saving;
  return (
    <Section title={say.title}>
      <p class="note">{say.about}</p>
      <label class="check">
        <input
          type="checkbox"
          checked={withLog}
          disabled={doing.busy}
          onChange={(event) => setWithLog(event.currentTarget.checked)}
        />
        {say.withLog}
      </label>
      <ProblemBox problem={doing.problem} />
      <div class="buttons">
        <Button text={doing.busy ? say.running : say.run} disabled={doing.busy} onClick={() => void doing.run(save)} />
        {doing.busy && <Button text={text.parts.cancel} onClick={() => stop.current?.abort()} />}
      </div>
      {doing.busy && (
        <div class="progress">
          <progress {...(ofBytes > 0 && { max: ofBytes, value: bytes })} aria-label={say.progress} />
          <span>{ofBytes === 0 ? say.making : say.soFar(sizeText(bytes), sizeText(ofBytes))}</span>
        </div>
      )}
      <Done>{done}</Done>
    </Section>
  );
}

/** Nothing is kept of a file that was cut short. */
async function saveBackup(
  api: Api,
  sink: Sink,
  withLog: boolean,
  signal: AbortSignal,
  onProgress: (saving: Saving) => void,
): Promise<number> {
  try {
    const { ofBytes, pieces } = await api.download(`/api/v1/admin/backup?log=${withLog}`, signal);
    if (ofBytes > sink.maxBytes)
      throw new ProblemError(localProblem(say.tooLarge, sizeText(ofBytes), say.tooLargeHint));
    let bytes = 0;
    for await (const piece of pieces) {
      await sink.write(piece);
      bytes += piece.length;
      onProgress({ bytes, ofBytes });
    }
    await sink.keep();
    return bytes;
  } catch (error) {
    await sink.discard().catch(() => {});
    throw error;
  }
}
