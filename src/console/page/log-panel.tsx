/** The live log with its controls. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { systemClock } from '../../shared/base/clock.ts';
import type { LineStatus } from '../../shared/gen/http.ts';
import { dumpLines } from '../bytes.ts';
import { countText, dayText, plural, timeText } from '../format.ts';
import { type FeedState, LogFeed } from '../log-feed.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from '../problem.ts';
import {
  type EntryRow,
  everything,
  filterFor,
  MAX_ROWS,
  olderRows,
  type ReadRows,
  RowBuffer,
  type Wanted,
} from '../rows.ts';
import { messagesOf } from '../stream.ts';
import type { Api } from './api.ts';
import { useLine } from './line-status.tsx';
import { LogList, type LogListHandle } from './log-list.tsx';
import { Button, Dialog, Dump, Facts, ProblemBox, Section, Select, TextField } from './parts.tsx';
import { useSession } from './session.ts';

export function LogPanel(): JSX.Element {
  const log = useLog();
  const [wanted, setWanted] = useState<Wanted>(everything);
  const [shown, show] = useState<EntryRow>();
  const [atEnd, setAtEnd] = useState(true);
  const list = useRef<LogListHandle>(null);
  const filter = useMemo(() => filterFor(wanted), [wanted]);
  const { rows, version } = log.buffer;
  const seen = useMemo(() => (filter.narrows ? rows.filter(filter.matches) : [...rows]), [filter, rows, version]);
  const isPaused = log.feed.is === 'paused';
  const toNewest = (): void => {
    if (isPaused || log.feed.is === 'refused') log.resume();
    list.current?.toEnd();
  };

  return (
    <Section title="Log" class="log" actions={<FeedBadge feed={log.feed} />}>
      <FeedProblem feed={log.feed} onAgain={log.resume} />
      <ProblemBox problem={log.older.problem} />
      {log.notice !== '' && <p class="note">{log.notice}</p>}
      <Filters wanted={wanted} fault={filter.fault} onChange={setWanted} />
      <div class="row log-tools">
        {isPaused ? (
          <Button text="Resume" class="main" onClick={toNewest} />
        ) : (
          <Button text="Pause" onClick={log.pause} />
        )}
        <Button
          text={log.older.busy ? 'Loading…' : 'Older'}
          disabled={log.atStart || log.older.busy}
          onClick={log.older.load}
        />
        {!isPaused && !atEnd && <Button text="Newest" onClick={toNewest} />}
        <p class="note count">{countLine(log, seen.length, filter.narrows)}</p>
      </div>
      <LogList ref={list} rows={seen} follows={!isPaused} onOpen={show} onAtEnd={setAtEnd} />
      <p class="note legend">
        <b>?</b> the clock was not set <b>~</b> its time was corrected later. Enter opens an entry.
      </p>
      {shown !== undefined && <EntryDialog entry={shown} onClose={() => show(undefined)} />}
    </Section>
  );
}

function countLine(log: Log, seen: number, narrows: boolean): string {
  const all = log.buffer.rows.length;
  const count = narrows ? `${countText(seen)} of ${plural(all, 'row')}` : plural(all, 'row');
  return log.feed.is === 'paused' && log.behind > 0 ? `${count}, ${countText(log.behind)} newer` : count;
}

const badges: Readonly<Record<FeedState['is'], readonly [string, string]>> = {
  live: ['Live', 'good'],
  stale: ['No data', 'bad'],
  connecting: ['Connecting', 'idle'],
  waiting: ['Disconnected', 'bad'],
  paused: ['Paused', 'idle'],
  refused: ['Refused', 'bad'],
};

function FeedBadge({ feed }: { feed: FeedState }): JSX.Element {
  const { value, isFresh } = useLine();
  const [words, usual] = badges[feed.is];
  // A log that is followed says nothing good of a port that is not open, or not known to be.
  const look = usual === 'good' && !(isFresh && value?.portState === 'open') ? 'idle' : usual;
  return (
    <span id="feed" data-feed={feed.is} class={`badge ${look}`} role="status">
      <span class="unseen">Log: </span>
      {words}
    </span>
  );
}

function FeedProblem({ feed, onAgain }: { feed: FeedState; onAgain: () => void }): JSX.Element | null {
  if (feed.is === 'waiting')
    return (
      <ProblemBox problem={{ ...feed.problem, hint: feed.problem.hint || 'The page tries again automatically.' }} />
    );
  if (feed.is !== 'refused') return null;
  return (
    <>
      <ProblemBox problem={feed.problem} />
      <Button text="Try again" onClick={onAgain} />
    </>
  );
}

function Filters(props: { wanted: Wanted; fault: string; onChange: (wanted: Wanted) => void }): JSX.Element {
  const { wanted, onChange } = props;
  return (
    <div class="row filters">
      <Select
        label="Direction"
        value={wanted.dir}
        options={[
          ['all', 'both'],
          ['rx', 'received'],
          ['tx', 'sent'],
        ]}
        onChange={(dir) => onChange({ ...wanted, dir })}
      />
      <TextField
        label="Search"
        fault={props.fault}
        class="wide"
        input={{ type: 'search', class: 'mono' }}
        value={wanted.text}
        onChange={(text) => onChange({ ...wanted, text })}
      />
      <Select label="As" value={wanted.as} options={['text', 'hex']} onChange={(as) => onChange({ ...wanted, as })} />
    </div>
  );
}

// One entry of the log, whole.

const MAX_LINES = 512;
const clocks = {
  known: '',
  unknown: '(clock unverified)',
  notSet: '(the clock was not set)',
  corrected: '(corrected when the clock was set)',
} as const;

function EntryDialog({ entry, onClose }: { entry: EntryRow; onClose: () => void }): JSX.Element {
  // 16 to a line want 600 px, 8 want 330.
  const width = matchMedia('(min-width: 700px)').matches ? 16 : matchMedia('(min-width: 370px)').matches ? 8 : 4;
  const lines = dumpLines(entry.bytes, width, MAX_LINES);
  const hidden = entry.bytes.length - lines.length * width;
  return (
    <Dialog title={`Entry ${entry.id}`} leave="Close" onClose={onClose}>
      <Facts
        of={[
          ['Direction', entry.dir === 'rx' ? 'received' : 'sent'],
          ['Time', `${dayText(entry.timestampMs)} ${timeText(entry.timestampMs)} ${clocks[entry.clock]}`],
          ['Size', plural(entry.bytes.length, 'byte')],
          ...(entry.note === '' ? [] : [['Note', entry.note] as const]),
        ]}
      />
      <Dump label="Bytes" wraps={false}>
        {lines.join('')}
      </Dump>
      {hidden > 0 && <p class="note">{plural(hidden, 'more byte')}: the command line shows them, "lineside log".</p>}
    </Dialog>
  );
}

// The log as the page holds it: followed, paused, read further back. Draws at most once a frame, whatever comes.

const notices = {
  replaced: 'The log of the box was replaced by a new one: it begins again.',
  lost: 'Entries are gone from the log: the newest are shown.',
  behind: 'More entries came meanwhile than the page holds: the newest are shown.',
  jump: '',
} as const;

type Log = ReturnType<typeof useLog>;

function useLog() {
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
      clock: systemClock,
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
    // More than the page can hold: continue with the newest.
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
    /** New entries since the pause. */
    behind,
    /** The first entry of the log is in the buffer. */
    atStart: buffer.firstId <= Math.max(1, firstStored, older.startId),
    older: { busy: older.busy, problem: older.problem, load },
    notice,
    pause: () => reader.pause(),
    resume,
  };
}

// Older rows of the log, a page for each click.

/** A page without data for so long is abandoned. */
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
    /** The first entry of the log; 0: not reached yet. */
    startId,
    load(buffer: RowBuffer, firstStored: number): void {
      loading.current?.abort();
      const own = new AbortController();
      loading.current = own;
      setState({ busy: true, problem: undefined });
      const { firstId } = buffer;
      olderRows(pagesOf(api, own.signal), firstId, firstStored).then(
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
    /** Drops a page in flight: it belongs before the rows of its request only. */
    leave,
    /** The rows are of another log, or of another place in it. */
    forget(): void {
      leave();
      setStartId(0);
    },
  };
}

/** Pages of the log, row by row as they come: a page of large entries is not held whole. */
function pagesOf(api: Api, signal: AbortSignal): ReadRows {
  return async (after, limit, take) => {
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
          if (message.type === 'row') take(message.row);
          // A page that ends with a reason is not whole.
          if (message.type === 'end') throw new ProblemError(localProblem('The log was disconnected', message.message));
        }
      }
    } finally {
      clearTimeout(timer);
    }
  };
}
