/** Requests to the box: repeated while a view is shown, in pages, or once for a click. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemFrom } from '../problem.ts';
import { useSession } from './session.ts';

export interface Loaded<T> {
  /** The last answer there was; it stays while later ones fail. */
  readonly value: T | undefined;
  readonly problem: Problem | undefined;
  /** The last answer came so recently that it says how things are now. */
  readonly isFresh: boolean;
  readonly reload: () => void;
  /** A newer value, from the answer to another request. */
  readonly put: (value: T) => void;
}

/** How late the next answer may be before the one that is shown counts as old. */
const LATE_MS = 4_000;

/** Requests `path` at once, and `everyMs` after each answer; 0: only once. '': no request. */
export function useLoaded<T>(path: string, everyMs: number): Loaded<T> {
  const { api } = useSession();
  const [value, setValue] = useState<{ path: string; value: T }>();
  const [problem, setProblem] = useState<Problem>();
  const [isFresh, setFresh] = useState(false);
  const [round, setRound] = useState(0);
  /** Counts calls of put: the answer to an earlier request is older than the value that was put. */
  const puts = useRef(0);
  useEffect(() => {
    if (path === '') return undefined;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const heard = (): void => {
      setFresh(true);
      clearTimeout(silence);
      if (everyMs > 0) silence = setTimeout(() => setFresh(false), everyMs + LATE_MS);
    };
    const ask = async (): Promise<void> => {
      const before = puts.current;
      try {
        const answer = await api.get<T>(path, stop.signal);
        if (stop.signal.aborted) return;
        if (puts.current === before) setValue({ path, value: answer });
        setProblem(undefined);
        heard();
      } catch (error) {
        if (stop.signal.aborted) return;
        setProblem(problemFrom(error));
        setFresh(false);
      }
      if (everyMs > 0) timer = setTimeout(again, everyMs);
    };
    // A hidden page sends no requests.
    const again = (): void => {
      if (document.visibilityState === 'visible') void ask();
      else timer = setTimeout(again, everyMs);
    };
    // When a hidden page is shown again, its value is old.
    const look = (): void => {
      if (document.visibilityState === 'visible') return;
      setFresh(false);
      clearTimeout(silence);
    };
    if (everyMs > 0) document.addEventListener('visibilitychange', look);
    setProblem(undefined);
    void ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearTimeout(silence);
      document.removeEventListener('visibilitychange', look);
    };
  }, [api, path, everyMs, round]);
  const reload = useCallback(() => setRound((one) => one + 1), []);
  const put = useCallback(
    (next: T) => {
      puts.current += 1;
      setValue({ path, value: next });
    },
    [path],
  );
  return { value: value?.path === path ? value.value : undefined, problem, isFresh, reload, put };
}

export interface Paged<T> {
  readonly items: readonly T[] | undefined;
  readonly hasMore: boolean;
  readonly problem: Problem | undefined;
  readonly more: () => void;
  readonly reload: () => void;
}

/** The longest list: a box with a hundred thousand records must not fill the page's memory. */
const MAX_ITEMS = 5_000;

interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

/** A list in pages; the first page is requested again every `everyMs` while it is the only one. `path` has a query. */
export function usePaged<T>(path: string, everyMs: number): Paged<T> {
  const { api } = useSession();
  /** From the first item on: an earlier page that is requested again may not end where the next one begins. */
  const [further, setFurther] = useState<{ path: string; items: readonly T[]; cursor: string | null }>();
  const [problem, setProblem] = useState<Problem>();
  const more = further?.path === path ? further : undefined;
  const first = useLoaded<Page<T>>(path, more === undefined ? everyMs : 0);
  const items = more?.items ?? first.value?.items;
  const cursor = more === undefined ? (first.value?.nextCursor ?? null) : more.cursor;
  const loadMore = async (): Promise<void> => {
    if (cursor === null || items === undefined) return;
    try {
      const next = `${path}&cursor=${encodeURIComponent(cursor)}`;
      const page = await api.get<Page<T>>(next);
      setFurther({ path, items: [...items, ...page.items], cursor: page.nextCursor });
      setProblem(undefined);
    } catch (error) {
      setProblem(problemFrom(error));
    }
  };
  // With a filter that finds little, a page may be empty although others follow.
  const isEmpty = items?.length === 0 && cursor !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each page
  useEffect(() => {
    if (isEmpty) void loadMore();
  }, [isEmpty, cursor]);
  return {
    items,
    hasMore: cursor !== null && (items?.length ?? 0) < MAX_ITEMS,
    problem: problem ?? first.problem,
    more: () => void loadMore(),
    reload: () => {
      setFurther(undefined);
      first.reload();
    },
  };
}

export interface Doing {
  readonly busy: boolean;
  readonly problem: Problem | undefined;
  /** Says whether it went well; what was thrown is in `problem`. */
  readonly run: (what: () => Promise<void>) => Promise<boolean>;
}

/** An action of the user: one at a time, and its failure is shown. */
export function useDoing(): Doing {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const run = async (what: () => Promise<void>): Promise<boolean> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await what();
      return true;
    } catch (error) {
      setProblem(problemFrom(error));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, problem, run };
}
