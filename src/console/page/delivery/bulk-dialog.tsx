/** Asks for a reason, then does the same for many things: with progress, a way to stop, and each result counted. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { type BulkResult, inTurn } from '../../bulk.ts';
import { text } from '../../text.ts';
import { useDoing } from '../loading.ts';
import { Dialog, Form, ProblemBox, ReasonField } from '../parts.tsx';

const say = text.delivery;
/** The others are counted. */
const MAX_REFUSALS = 20;

export interface Bulk<T> {
  readonly items: readonly T[];
  readonly title: string;
  readonly text: string;
  readonly action: string;
  readonly danger?: true;
  readonly each: (item: T, reason: string) => Promise<unknown>;
  readonly summary: (well: number, refused: number) => string;
}

export function BulkDialog<T>(props: {
  of: Bulk<T>;
  nameOf: (item: T) => string;
  onDone: () => void;
  onClose: () => void;
}): JSX.Element {
  const { of, nameOf, onDone, onClose } = props;
  const [reason, setReason] = useState('');
  const [tried, setTried] = useState<number>();
  const [result, setResult] = useState<BulkResult<T>>();
  const stop = useMemo(() => new AbortController(), []);
  const doing = useDoing();
  useEffect(() => () => stop.abort(), [stop]);
  const submit = (): void =>
    void doing.run(async () => {
      setTried(0);
      setResult(await inTurn(of.items, (item) => of.each(item, reason), { signal: stop.signal, onProgress: setTried }));
      onDone();
    });
  if (result !== undefined) {
    return (
      <Dialog title={of.title} leave={text.parts.close} onClose={onClose}>
        <BulkReport of={result} summary={of.summary} nameOf={nameOf} />
      </Dialog>
    );
  }
  if (tried !== undefined) {
    return (
      <Dialog key="running" title={of.title} leave={say.bulk.stop} onClose={() => stop.abort()}>
        <p role="status">{say.bulk.progress(tried, of.items.length)}</p>
        <progress max={of.items.length} value={tried} aria-label={of.title} />
      </Dialog>
    );
  }
  return (
    <Dialog title={of.title} typed={reason !== ''} onClose={onClose}>
      <Form doing={doing} action={of.action} danger={of.danger === true} onSubmit={submit}>
        <p>{of.text}</p>
        <ReasonField hint={say.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

function BulkReport<T>(props: {
  of: BulkResult<T>;
  summary: Bulk<T>['summary'];
  nameOf: (item: T) => string;
}): JSX.Element {
  const { of, summary, nameOf } = props;
  const more = of.refused.length - MAX_REFUSALS;
  return (
    <>
      <p role="status">
        <strong>{summary(of.well, of.refused.length)}</strong> {of.left > 0 && say.bulk.left(of.left)}
      </p>
      {of.unanswered !== undefined && <p>{say.bulk.unanswered(nameOf(of.unanswered))}</p>}
      <ProblemBox problem={of.problem} />
      {of.refused.length > 0 && (
        <ul>
          {of.refused.slice(0, MAX_REFUSALS).map(({ item, reason }) => (
            <li key={nameOf(item)}>{say.bulk.refusal(nameOf(item), reason)}</li>
          ))}
          {more > 0 && <li>{say.bulk.more(more)}</li>}
        </ul>
      )}
    </>
  );
}
