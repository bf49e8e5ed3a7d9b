/** The log as the page holds it: followed, paused, read further back. Draws at most once a frame, whatever comes. */
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import type { LineStatus } from '../../shared/gen/http.ts';
import { type FeedState, LogFeed } from '../log-feed.ts';
import { olderRows } from '../older.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from '../problem.ts';
import { MAX_ROWS, type Row, RowBuffer } from '../rows.ts';
import { messagesOf } from '../stream.ts';
import type { Api } from './api.ts';
import { useLine } from './line-status.tsx';
import { useSession } from './session.ts';

const notices = {
  replaced: 'The log of the box was replaced by a new one: it begins again.',
  lost: 'Entries are gone from the log: the newest are shown.',
  behind: 'More entries came meanwhile than the page holds: the newest are shown.',
  jump: '',
} as const;

export type Log = ReturnType<typeof useLog>;

export function useLog() {
  const { api } = useSession();
  const line = useLine();
  const [feed, setFeed] = useState<FeedState>({ is: 'connecting' });
  const [notice, setNotice] = useState('');
  const older = useOlder(api);
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
      after: (ms, call) => {
        const timer = setTimeout(call, ms);
        return () => clearTimeout(timer);
      },
      onState: setFeed,
      onRows: (found) => {
        rows.append(found);
        draw();
      },
      onReset: (why) => {
        older.forget();
        rows.clear();
        setNotice(notices[why]);
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
    older.leave();
    // More than the page can hold: the newest is what is wanted.
    if (buffer.lastId === 0 || behind > MAX_ROWS) reader.startAtNewest();
    else reader.startAfter(buffer.lastId);
  };
  const load = (): void => {
    reader.pause();
    older.load(buffer, firstStored);
  };
  return {
    buffer,
    feed,
    /** Entries that have come since it was paused. */
    behind,
    /** The first entry that there is, is here. */
    atStart: buffer.firstId <= Math.max(1, firstStored, older.startId),
    older: { busy: older.busy, problem: older.problem, load },
    notice,
    pause: () => reader.pause(),
    resume,
  };
}

// Older rows of the log, a page at a time when they are asked for.

/** When nothing more of a page comes for so long, it is given up. */
const PATIENCE_MS = 20_000;

interface OlderState {
  readonly busy: boolean;
  readonly problem: Problem | undefined;
}

const idle: OlderState = { busy: false, problem: undefined };

function useOlder(api: Api) {
  const [state, setState] = useState(idle);
  const [startId, setStartId] = useState(0);
  const loading = useRef<AbortController>(undefined);
  const leave = (): void => {
    loading.current?.abort();
    setState(idle);
  };
  useEffect(() => () => loading.current?.abort(), []);
  return {
    ...state,
    /** The first entry that there is; 0: it was not come to. */
    startId,
    load(buffer: RowBuffer, firstStored: number): void {
      loading.current?.abort();
      const own = new AbortController();
      loading.current = own;
      setState({ busy: true, problem: undefined });
      const { firstId } = buffer;
      olderRows({ read: pagesOf(api, own.signal) }, firstId, firstStored).then(
        (rows) => {
          if (own.signal.aborted) return;
          if (rows.length === 0) setStartId(firstId);
          buffer.prepend(rows);
          // Drawn with it.
          setState(idle);
        },
        (error: unknown) => {
          if (!own.signal.aborted) setState({ busy: false, problem: problemFrom(error) });
        },
      );
    },
    /** A page in flight belongs before the rows of its request, and is not put before others. */
    leave,
    /** The rows are of another log, or of another place in it. */
    forget(): void {
      leave();
      setStartId(0);
    },
  };
}

/** Pages of the log, row by row as they come: a page of large entries is not held whole. */
function pagesOf(api: Api, signal: AbortSignal) {
  return async (after: number, limit: number, take: (rows: readonly Row[]) => void): Promise<void> => {
    const silent = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), PATIENCE_MS);
    };
    heard();
    try {
      const query = `after=${after}&limit=${limit}&follow=false`;
      const pieces = await api.stream(`/api/v1/line/log?${query}`, AbortSignal.any([signal, silent.signal]));
      for await (const messages of messagesOf(pieces)) {
        heard();
        for (const message of messages) {
          if (message.type === 'row') take([message.row]);
          // A page that ends with a reason is not whole.
          if (message.type === 'end') throw new ProblemError(localProblem('The log was cut off', message.message));
        }
      }
    } finally {
      clearTimeout(timer);
    }
  };
}
