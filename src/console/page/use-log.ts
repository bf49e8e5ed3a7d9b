/** The log as the page holds it: followed, paused, read further back. Draws at most once a frame, whatever comes. */
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { type FeedState, LogFeed } from '../log-feed.ts';
import type { Problem } from '../problem.ts';
import { MAX_ROWS, RowBuffer } from '../rows.ts';
import type { LineStatus } from '../shapes.ts';
import { useLine } from './line-status.tsx';
import { useSession } from './session.ts';
import { useOlder } from './use-older.ts';

const notices = {
  replaced: 'The log of the box was replaced by a new one: it begins again.',
  lost: 'Entries are gone from the log: the newest are shown.',
  behind: 'More entries came meanwhile than the page holds: the newest are shown.',
  jump: '',
} as const;

export interface Log {
  readonly buffer: RowBuffer;
  readonly feed: FeedState;
  /** Entries that have come since it was paused. */
  readonly behind: number;
  /** The first entry that there is, is here. */
  readonly atStart: boolean;
  readonly older: { readonly busy: boolean; readonly problem: Problem | undefined; readonly load: () => void };
  readonly notice: string;
  readonly pause: () => void;
  readonly goOn: () => void;
}

export function useLog(): Log {
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
  const goOn = (): void => {
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
    behind,
    atStart: buffer.firstId <= Math.max(1, firstStored, older.startId),
    older: { busy: older.busy, problem: older.problem, load },
    notice,
    pause: () => reader.pause(),
    goOn,
  };
}
