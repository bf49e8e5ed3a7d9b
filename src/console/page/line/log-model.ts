/** The log as the page holds it: followed, paused, read further back. Draws at most once a frame, whatever comes. */
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { systemClock } from '../../../shared/base/clock.ts';
import type { LineEvents, LineStatus } from '../../../shared/gen/http.ts';
import { countText } from '../../format.ts';
import { type FeedState, LogFeed } from '../../log-feed.ts';
import { olderRows, PAGE_ENTRIES, pageTaker, type ReadRows } from '../../pages.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from '../../problem.ts';
import { type LineEvent, MAX_ROWS, type Row, RowBuffer } from '../../rows.ts';
import { messagesOf } from '../../stream.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { useLine } from '../line-status.tsx';
import { useLoaded } from '../loading.ts';
import { useSession } from '../session.ts';

export type Log = ReturnType<typeof useLog>;

/** One entry of one log: ids begin again in another. */
export interface EntryPlace {
  readonly id: number;
  /** '': whichever the box has. */
  readonly logId: string;
}

export function useLog() {
  const { api } = useSession();
  const line = useLine();
  const [feed, setFeed] = useState<FeedState>({ is: 'connecting' });
  const [notice, setNotice] = useState('');
  const pages = usePages(api);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const frame = useRef(0);
  const draw = (): void => {
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      redraw(undefined);
    });
  };

  const [buffer, reader] = useMemo(() => {
    const rows = new RowBuffer();
    const log = new LogFeed({
      open: (query, signal) => api.stream(`/api/v1/line/log?${query}`, signal),
      firstStoredId: async (signal) => (await api.get<LineStatus>('/api/v1/line', signal)).log.firstId,
      clock: systemClock,
      onState: setFeed,
      onRows: (found) => {
        rows.append(found);
        draw();
      },
      onReset: (why) => {
        pages.forget();
        rows.clear();
        setNotice(text.log.notices[why]);
        draw();
      },
    });
    return [rows, log] as const;
  }, [api]);
  useEffect(() => {
    reader.start();
    return () => reader.pause();
  }, [reader]);

  const lastId = Math.max(buffer.lastId, feed.is === 'paused' ? 0 : reader.afterId);
  const firstStored = line.value?.log.firstId ?? 0;
  const behind = Math.max(0, (line.value?.log.headId ?? 0) - lastId);
  const resume = (): void => {
    pages.leave();
    // More than the page can hold: continue with the newest.
    if (buffer.lastId === 0 || behind > MAX_ROWS) reader.startAtNewest();
    else reader.startAfter(buffer.lastId);
  };
  const places = usePlaces({ api, buffer, reader, pages, firstStored, setNotice });
  return {
    buffer,
    feed,
    /** New entries since the pause. */
    behind,
    /** The first entry of the log is in the buffer. */
    atStart: buffer.firstId <= Math.max(1, firstStored, pages.startId),
    pages: places,
    notice,
    pause: () => reader.pause(),
    resume,
  };
}

/** Other places in the log: the log stays there. */
function usePlaces(parts: {
  api: Api;
  buffer: RowBuffer;
  reader: LogFeed;
  pages: ReturnType<typeof usePages>;
  firstStored: number;
  setNotice: (notice: string) => void;
}) {
  const { api, buffer, reader, pages, firstStored, setNotice } = parts;
  const [target, setTarget] = useState<{ readonly id: number }>();
  const clear = (): void => {
    reader.pause();
    pages.forget();
    buffer.clear();
    setNotice('');
  };
  const append = async (read: Promise<readonly Row[]>): Promise<void> => {
    const found = await read;
    setNotice(found.length === 0 ? text.log.notices.nothing : '');
    buffer.append(found);
  };
  /** `untilMs` 0: without an end. */
  const jump = (sinceMs: number, untilMs: number): void => {
    clear();
    pages.load((signal) => append(firstRows(api, `sinceMs=${sinceMs}${upTo(untilMs)}`, signal)));
  };
  /** With the entries around it. */
  const showEntry = ({ id, logId }: EntryPlace): void => {
    clear();
    pages.load(async (signal) => {
      const { log } = await api.get<LineStatus>('/api/v1/line', signal);
      if (logId !== '' && logId !== log.logId) throw new ProblemError(localProblem(text.log.notices.otherLog, ''));
      await append(firstRows(api, `after=${Math.max(id, log.firstId) - 1}`, signal));
      if (buffer.lastId === 0) return;
      if (buffer.firstId !== id) setNotice(text.log.notices.noEntry(countText(id)));
      await prependOlder(api, buffer, log.firstId, signal);
      setTarget({ id });
    });
  };
  return {
    busy: pages.busy,
    problem: pages.problem,
    older(): void {
      reader.pause();
      pages.older(buffer, firstStored);
    },
    newer: (untilMs: number) =>
      pages.load((signal) => append(firstRows(api, `after=${buffer.lastId}${upTo(untilMs)}`, signal))),
    jump,
    showEntry,
    /** To the place of a link, if it has one. */
    go: ({
      entry,
      jumpMs,
      untilMs,
    }: {
      readonly entry: EntryPlace | undefined;
      jumpMs: number;
      untilMs: number;
    }): void => {
      if (entry !== undefined) showEntry(entry);
      else if (jumpMs > 0) jump(jumpMs, untilMs);
    },
    /** The entry that was to be shown, once it is there. */
    target,
  };
}

// What happened to the line: all that the box keeps for a page, then what is new.

const EVENTS_MS = 3_000;

export function useEvents(): readonly LineEvent[] {
  const all = useLoaded<LineEvents>('/api/v1/line/events?limit=1000', 0);
  const newest = useLoaded<LineEvents>('/api/v1/line/events?limit=20', EVENTS_MS);
  const [older, newer] = [all.value?.items ?? none, newest.value?.items ?? none];
  const [first, last] = [newer[0]?.id ?? 0, older.at(-1)?.id ?? 0];
  // More came at once than the newest are, or the log was replaced and they are counted from 1 again.
  const isBroken = first > last + 1 || (newer.at(-1)?.id ?? 0) < last;
  useEffect(() => {
    // With each answer to the other request, so that a box that refuses is not asked without a pause.
    const isMissing = all.value === undefined && all.problem !== undefined;
    if (isMissing || (isBroken && all.value !== undefined)) all.reload();
  }, [newest.value]);
  return useMemo(() => [...older.filter(({ id }) => id < first || first === 0), ...newer], [older, newer]);
}

const none: readonly LineEvent[] = [];

// Rows of another place in the log, a page for each click.

/** A page without data for so long is abandoned. */
const PATIENCE_MS = 20_000;

interface PageState {
  readonly busy: boolean;
  readonly problem: Problem | undefined;
}

const idle: PageState = { busy: false, problem: undefined };

function usePages(api: Api) {
  const [state, setState] = useState(idle);
  const [startId, setStartId] = useState(0);
  const loading = useRef<AbortController>(undefined);
  const leave = (): void => {
    loading.current?.abort();
    setState(idle);
  };
  useEffect(() => () => loading.current?.abort(), []);
  /** What `work` does after its signal has fired is of no use: its rows belong to another place. */
  const load = (work: (signal: AbortSignal) => Promise<void>): void => {
    loading.current?.abort();
    const own = new AbortController();
    loading.current = own;
    setState({ busy: true, problem: undefined });
    work(own.signal).then(
      () => own.signal.aborted || setState(idle),
      (error: unknown) => own.signal.aborted || setState({ busy: false, problem: problemFrom(error) }),
    );
  };
  return {
    ...state,
    /** The first entry of the log; 0: not reached yet. */
    startId,
    load,
    older(buffer: RowBuffer, firstStored: number): void {
      const { firstId } = buffer;
      load(async (signal) => {
        const found = await prependOlder(api, buffer, firstStored, signal);
        if (found === 0) setStartId(firstId);
      });
    },
    /** Drops a page in flight: it belongs before the rows of its request only. */
    leave,
    /** The rows are of another log, or of another place in it. */
    forget(): void {
      leave();
      setStartId(0);
    },
  };
}

function upTo(untilMs: number): string {
  return untilMs === 0 ? '' : `&untilMs=${untilMs}`;
}

/** How many rows there were. */
async function prependOlder(api: Api, buffer: RowBuffer, firstStored: number, signal: AbortSignal): Promise<number> {
  const read: ReadRows = (after, limit, take) => readPage(api, `after=${after}&limit=${limit}`, signal, take);
  const rows = await olderRows(read, buffer.firstId, firstStored);
  signal.throwIfAborted();
  buffer.prepend(rows);
  return rows.length;
}

/** `query`: where the page begins. */
async function firstRows(api: Api, query: string, signal: AbortSignal): Promise<readonly Row[]> {
  const { rows, take } = pageTaker();
  await readPage(api, `${query}&limit=${PAGE_ENTRIES}`, signal, take);
  signal.throwIfAborted();
  return rows;
}

/** A page of the log, row by row as they come: a page of large entries is not held whole. */
async function readPage(api: Api, query: string, signal: AbortSignal, take: (row: Row) => void): Promise<void> {
  const silent = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const heard = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), PATIENCE_MS);
  };
  heard();
  try {
    const ended = AbortSignal.any([signal, silent.signal]);
    const pieces = await api.stream(`/api/v1/line/log?${query}&follow=false`, ended);
    for await (const messages of messagesOf(pieces)) {
      heard();
      for (const message of messages) {
        if (message.type === 'row') take(message.row);
        // A page that ends with a reason is not whole.
        if (message.type === 'end')
          throw new ProblemError(localProblem(text.log.notices.disconnected, message.message));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
