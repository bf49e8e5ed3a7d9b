/** Searches of the stored log, one at a time: what was found stays until the next one begins. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { localProblem, type Problem, problemFrom } from '../../problem.ts';
import { type Match, type Message, messagesOf, type Progress } from '../../stream.ts';
import { text } from '../../text.ts';
import { useSession } from '../session.ts';
import { type Address, newSearch, type StoredSearch } from './log-address.ts';
import type { EntryPlace } from './log-model.ts';

const words = text.log.stored;

export type StoredSearches = ReturnType<typeof useSearches>;

interface State {
  readonly busy: boolean;
  /** The log that the ids are of. */
  readonly logId: string;
  /** Undefined: no search was made. */
  readonly found: readonly Match[] | undefined;
  readonly progress: Progress | undefined;
  readonly problem: Problem | undefined;
  /** All was searched. */
  readonly isWhole: boolean;
  /** The cursor of a search that has not come to its end. */
  readonly after: number | undefined;
}

const none: State = {
  busy: false,
  logId: '',
  found: undefined,
  progress: undefined,
  problem: undefined,
  isWhole: false,
  after: undefined,
};

/** The dialog and its searches. A link (`links` counts them) has another search than the last one. */
export function useSearches(address: Address, want: (changed: Partial<Address>) => void, links: number) {
  const runs = useRuns();
  const last = useRef<StoredSearch>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each link
  useEffect(() => runs.clear(), [links]);
  const leave = (changed: Partial<Address>): void => {
    last.current = address.search;
    runs.stop();
    want({ ...changed, search: undefined });
  };
  return {
    ...runs,
    /** The next match of the same search is chosen from what was found, unless something else is typed. */
    open: (): void => {
      const again = address.text === '' ? last.current : undefined;
      if (again === undefined) runs.clear();
      want({ search: again ?? newSearch(address) });
    },
    /** The entry of a match: the filter of the log may hide it, as the search may have been made with another one. */
    choose: (entry: EntryPlace, dir: Match['dir']): void => {
      const isHidden = address.dir !== 'all' && address.dir !== dir;
      leave({ ...(isHidden && { dir: 'all' }), text: '', jumpMs: 0, entry, untilMs: 0 });
    },
    close: (): void => leave({}),
  };
}

function useRuns() {
  const { api } = useSession();
  const [state, setState] = useState(none);
  const own = useRef<AbortController>(undefined);
  const request = useRef('');
  useEffect(() => () => own.current?.abort(), []);
  const stop = (): void => own.current?.abort();
  /** `path`: of the first page; `from`: what is known when a page begins. */
  const run = async (path: string, from: State): Promise<void> => {
    stop();
    const { signal } = (own.current = new AbortController());
    let now: State = { ...from, busy: true, problem: undefined, isWhole: false, after: undefined };
    const become = (changed: Partial<State>): void => {
      now = { ...now, ...changed };
      if (own.current?.signal === signal) setState(now);
    };
    become({});
    let isEnded = false;
    try {
      for await (const messages of messagesOf(await api.stream(path, signal))) {
        isEnded ||= messages.some(({ type }) => type === 'done' || type === 'end');
        const found = [...(now.found ?? []), ...messages.filter((one) => one.type === 'match')];
        become({ ...messages.reduce(withMessage, now), found });
      }
      become({ busy: false, ...(!isEnded && { problem: localProblem(words.failed, words.cutShort) }) });
    } catch (error) {
      become({ busy: false, ...(!signal.aborted && { problem: problemFrom(error) }) });
    }
  };
  const { after } = state;
  const more = (): void =>
    void run(`${request.current}&after=${after}&logId=${encodeURIComponent(state.logId)}`, state);
  return {
    ...state,
    run: (path: string): void => {
      request.current = path;
      void run(path, { ...none, found: [] });
    },
    more: after === undefined ? undefined : more,
    stop,
    clear: (): void => {
      stop();
      own.current = undefined;
      setState(none);
    },
  };
}

function withMessage(state: State, message: Message): State {
  switch (message.type) {
    case 'log':
      return { ...state, logId: message.logId };
    case 'progress':
      return { ...state, progress: message };
    case 'done':
      return message.reason === 'complete' ? { ...state, isWhole: true } : { ...state, after: message.resumeAfterId };
    case 'end':
      return { ...state, problem: localProblem(words.failed, message.message) };
    default:
      return state;
  }
}
