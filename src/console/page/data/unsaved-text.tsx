/** Text that was typed and not saved, in this tab: kept while it is typed, and offered again. */
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { type Typed, Unsaved } from '../../data/unsaved.ts';
import { text } from '../../text.ts';
import { Button } from '../parts.tsx';
import { tabStorage, useSession } from '../session.ts';

const say = text.unsaved;

export interface Typing<T extends Typed> {
  readonly values: T;
  readonly change: (changed: Partial<T>) => void;
  /** It differs from what the form began with. */
  readonly isTyped: boolean;
  /** For the form: whether this is text of an earlier time, or cannot be kept. */
  readonly note: JSX.Element | null;
  /** It was saved, or is to be dropped. */
  readonly forget: () => void;
}

/** The fields of a form. `atFirst`: what the form begins with if nothing is kept. */
export function useTyping<T extends Typed>(id: string, atFirst: T): Typing<T> {
  const unsaved = useUnsaved();
  const [start] = useState(atFirst);
  const [wasKept, setWasKept] = useState(() => unsaved.kept(id) !== undefined);
  const [values, setValues] = useState<T>(() => ({ ...start, ...unsaved.kept(id) }));
  const [isTooLarge, setTooLarge] = useState(false);
  const differs = (one: T): boolean => Object.keys(start).some((name) => one[name] !== start[name]);
  const set = (next: T): void => {
    setValues(next);
    if (differs(next)) setTooLarge(!unsaved.keep(id, next));
    else unsaved.forget(id);
  };
  const discard = (): void => {
    setWasKept(false);
    set(start);
  };
  const isTyped = differs(values);
  const note = (
    <>
      {wasKept && isTyped && <Offer words={say.isShown} discard={discard} />}
      {isTooLarge && <p class="note fault">{say.tooLarge}</p>}
    </>
  );
  return {
    values,
    change: (changed) => set({ ...values, ...changed }),
    isTyped,
    note,
    forget: () => unsaved.forget(id),
  };
}

/** Beside what opens the form. Nothing if nothing is kept. */
export function UnsavedNote(props: { id: string; resume: () => void }): JSX.Element | null {
  const unsaved = useUnsaved();
  const [, draw] = useState(0);
  if (unsaved.kept(props.id) === undefined) return null;
  const discard = (): void => {
    unsaved.forget(props.id);
    draw((one) => one + 1);
  };
  return <Offer words={say.isKept} resume={props.resume} discard={discard} />;
}

/** The names in the ids that begin so. */
export function useUnsavedNames(prefix: string): readonly string[] {
  return useUnsaved()
    .ids(prefix)
    .map((id) => id.slice(prefix.length));
}

function Offer(props: { words: string; resume?: () => void; discard: () => void }): JSX.Element {
  return (
    <div class="row unsaved">
      <span>{props.words}</span>
      {props.resume !== undefined && <Button text={say.resume} onClick={props.resume} />}
      <Button text={text.parts.discard} class="danger" onClick={props.discard} />
    </div>
  );
}

function useUnsaved(): Unsaved {
  const { name } = useSession();
  return useMemo(() => new Unsaved(tabStorage, name), [name]);
}
