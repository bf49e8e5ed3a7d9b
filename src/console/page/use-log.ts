/** The log as the page holds it: followed, paused, read further back. Draws at most once a frame, whatever comes. */
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { type FeedState, LogFeed } from '../log-feed.ts';
import { type Problem, problemFrom } from '../problem.ts';
import { MAX_ROWS, type Row, RowBuffer } from '../rows.ts';
import type { LineStatus } from '../shapes.ts';
import { LineSplitter, messageOf } from '../stream.ts';
import type { Api } from './api.ts';
import { useLine } from './line-status.tsx';
import { useSession } from './session.ts';

const PATH = '/api/v1/line/log';
const OLDER_ENTRIES = 500;
/** Ids may be missing where nothing of an older page is left to see: so many empty pages are looked through. */
const MAX_EMPTY_PAGES = 4;

const notices = {
  replaced: 'The log of the box was replaced by a new one: it begins again.',
  lost: 'Entries are gone from the log: the newest are shown.',
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
  const [older, setOlder] = useState<{ busy: boolean; problem: Problem | undefined }>({
    busy: false,
    problem: undefined,
  });
  const [atStart, setAtStart] = useState(false);
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
      open: (query, signal) => api.stream(`${PATH}?${query}`, signal),
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
        rows.clear();
        setAtStart(false);
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
    // More than the page can hold: the newest is what is wanted.
    if (buffer.lastId === 0 || behind > MAX_ROWS) reader.startAtNewest();
    else reader.startAfter(buffer.lastId);
  };
  const load = (): void => {
    reader.pause();
    setOlder({ busy: true, problem: undefined });
    olderRows(api, buffer.firstId, firstStored).then(
      (rows) => {
        if (rows.length === 0) setAtStart(true);
        buffer.prepend(rows);
        setOlder({ busy: false, problem: undefined });
        draw();
      },
      (error: unknown) => setOlder({ busy: false, problem: problemFrom(error) }),
    );
  };
  return {
    buffer,
    feed,
    behind,
    atStart: atStart || buffer.firstId <= Math.max(1, firstStored),
    older: { ...older, load },
    notice,
    pause: () => reader.pause(),
    goOn,
  };
}

/** The entries right before an id, in the order of the log; none: it is the first one there is. */
async function olderRows(api: Api, firstId: number, firstStored: number): Promise<Row[]> {
  let before = firstId;
  for (let page = 0; page < MAX_EMPTY_PAGES && before > firstStored; page += 1) {
    // Asked for an entry that retention has removed, the box refuses the whole page.
    const after = Math.max(0, firstStored - 1, before - OLDER_ENTRIES - 1);
    const text = await api.text(`${PATH}?after=${after}&limit=${OLDER_ENTRIES}&follow=false`);
    const rows = new LineSplitter().push(`${text}\n`).flatMap((one) => {
      const message = messageOf(one);
      return message?.type === 'row' && message.row.id < firstId ? [message.row] : [];
    });
    if (rows.length > 0) return rows;
    before = after + 1;
  }
  return [];
}
