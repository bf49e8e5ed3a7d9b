/** A file of this device is sent to the line in packets, with progress; what was accepted and what was not is said exactly. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hexText } from '../../../shared/log-formats/byte-text.ts';
import { countText, sizeText } from '../../format.ts';
import {
  type FileOutcome,
  fileFault,
  MAX_FILE_BYTES,
  outcomeText,
  pieceBytes,
  sendPieces,
} from '../../line/sending.ts';
import { localProblem, type Problem, problemFrom } from '../../problem.ts';
import { text } from '../../text.ts';
import { useLine } from '../line-status.tsx';
import { Dialog, Field, ProblemBox } from '../parts.tsx';
import { useSession } from '../session.ts';

const words = text.send.file;

interface Progress {
  readonly all: number;
  readonly accepted: number;
  /** undefined: it is being sent. */
  readonly outcome: FileOutcome | undefined;
}

export function SendFileDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const [file, choose] = useState<File>();
  const { progress, fault, problem, start, cancel } = useSendFile();
  const isSending = progress !== undefined && progress.outcome === undefined;
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isSending) cancel();
    else void start(file);
  };
  return (
    <Dialog
      title={words.title}
      leave={isSending ? words.cancel : words.close}
      onClose={() => (isSending ? cancel() : onClose())}
    >
      <form onSubmit={submit} noValidate>
        <ProblemBox problem={problem ?? progress?.outcome?.problem} />
        <Field label={words.file} hint={words.hint(sizeText(MAX_FILE_BYTES))} fault={fault}>
          {(attributes) => (
            <input
              {...attributes}
              type="file"
              disabled={isSending}
              onChange={(event) => choose(event.currentTarget.files?.[0])}
            />
          )}
        </Field>
        {progress !== undefined && <ProgressText progress={progress} />}
        <div class="row foot">
          <button type="submit" class="main">
            {isSending ? words.cancel : text.send.send}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ProgressText({ progress: { all, accepted, outcome } }: { progress: Progress }): JSX.Element {
  const said = outcome === undefined ? words.progress(countText(accepted), countText(all)) : outcomeText(outcome, all);
  return (
    <>
      <progress aria-label={words.title} value={accepted} max={all} />
      <p role="status">{said}</p>
    </>
  );
}

/** One file at a time. Cancelling and closing wait for the packet in flight, so that what was accepted is known. */
function useSendFile() {
  const { api } = useSession();
  const status = useLine().value;
  const [progress, setProgress] = useState<Progress>();
  const [fault, setFault] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const cancelled = useRef(false);
  const cancel = (): void => {
    cancelled.current = true;
  };
  useEffect(() => cancel, []);
  const start = async (file: File | undefined): Promise<void> => {
    setProgress(undefined);
    setProblem(undefined);
    const isOpen = status?.portState === 'open';
    const found = file === undefined ? words.none : isOpen ? fileFault(file.size, status) : words.notOpen;
    setFault(found);
    if (file === undefined || status === undefined || found !== undefined) return;
    cancelled.current = false;
    setProgress({ all: file.size, accepted: 0, outcome: undefined });
    const bytes = await read(file);
    if (!(bytes instanceof Uint8Array)) {
      setProgress(undefined);
      return setProblem(bytes);
    }
    const all = bytes.length;
    const outcome = await sendPieces(
      bytes,
      pieceBytes(status),
      (piece) => api.send('POST', '/api/v1/line/send', { body: { hex: hexText(piece) } }),
      (accepted) => {
        setProgress({ all, accepted, outcome: undefined });
        return !cancelled.current;
      },
    );
    setProgress({ all, accepted: outcome.accepted, outcome });
  };
  return { progress, fault, problem, start, cancel };
}

/** A browser may refuse a file that has changed or gone since it was chosen. */
async function read(file: File): Promise<Uint8Array | Problem> {
  try {
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    return localProblem(words.unread, problemFrom(error).detail);
  }
}
