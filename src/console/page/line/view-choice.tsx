/** How the line is shown: its log in one of several ways, or as a terminal. One choice, which the browser keeps. */
import { createContext, type JSX } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import type { LogView } from '../../selection.ts';
import { text } from '../../text.ts';
import { Select, useMedia } from '../parts.tsx';
import { useKept, useSession } from '../session.ts';

type Shown = LogView | 'terminal';

export interface ViewChoice {
  readonly isTerminal: boolean;
  /** Of the log, also while the terminal is shown. */
  readonly log: LogView;
  readonly choose: (view: Shown) => void;
}

const onDesk = ['both', 'lines', 'text', 'hex'] as const;
/** Rows of hex and text are too wide for a phone. */
const onPhone = ['lines', 'both', 'text', 'hex'] as const;
const DESK = '(min-width: 700px)';

export const ViewContext = createContext<ViewChoice | undefined>(undefined);

export function useViewChoice(): ViewChoice {
  const { rights } = useSession();
  const views: readonly [LogView, ...LogView[]] = matchMedia(DESK).matches ? onDesk : onPhone;
  const [shown, choose] = useKept<Shown>('lineside.line.view', [...views, 'terminal']);
  const isTerminal = shown === 'terminal' && rights.operates;
  const log = useRef<LogView>(views[0]);
  if (shown !== 'terminal') log.current = shown;
  const before = useRef(isTerminal);
  useEffect(() => {
    if (before.current === isTerminal) return;
    before.current = isTerminal;
    // The switch that was used may have been removed with the view.
    if (document.activeElement === document.body) document.querySelector<HTMLElement>('.view-switch select')?.focus();
  }, [isTerminal]);
  return { isTerminal, log: log.current, choose };
}

/** On a desk it stands in what it changes. On a phone there is no room for it there: it stands above. */
export function ViewSwitch({ on }: { on: 'desk' | 'phone' }): JSX.Element | null {
  const { rights } = useSession();
  const choice = useContext(ViewContext);
  const isDesk = useMedia(DESK);
  if (choice === undefined || isDesk !== (on === 'desk')) return null;
  const views: readonly Shown[] = [...onDesk, ...(rights.operates ? (['terminal'] as const) : [])];
  return (
    <div class="view-switch">
      <Select<Shown>
        label={text.log.show}
        value={choice.isTerminal ? 'terminal' : choice.log}
        options={views.map((view) => [view, text.log.views[view]] as const)}
        onChange={choice.choose}
      />
    </div>
  );
}
