/** The live log with its controls. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { systemClock } from '../../../shared/base/clock.ts';
import { msOfLocalTime } from '../../../shared/base/instant.ts';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { dumpLines } from '../../bytes.ts';
import { countText, dayText, fieldText, plural, timeText } from '../../format.ts';
import { type FeedState, LogFeed } from '../../log-feed.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from '../../problem.ts';
import {
  type EntryRow,
  everything,
  filterFor,
  MAX_ROWS,
  olderRows,
  PAGE_ENTRIES,
  pageTaker,
  type ReadRows,
  type Row,
  RowBuffer,
  type Wanted,
} from '../../rows.ts';
import { messagesOf } from '../../stream.ts';
import type { Api } from '../api.ts';
import { useLine } from '../line-status.tsx';
import { Button, Dialog, Dump, Facts, ProblemBox, Section, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { LogList, type LogListHandle } from './log-list.tsx';

export function LogPanel(): JSX.Element {
  const log = useLog();
  const [wanted, setWanted] = useState<Wanted>(everything);
  const [shown, show] = useState<EntryRow>();
  const [jumps, setJumps] = useState(false);
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
      <ProblemBox problem={log.pages.problem} />
      {log.notice !== '' && <p class="note">{log.notice}</p>}
      <Filters wanted={wanted} fault={filter.fault} onChange={setWanted} />
      <div class="row log-tools">
        {isPaused ? (
          <Button text="Resume" class="main" onClick={toNewest} />
        ) : (
          <Button text="Pause" onClick={log.pause} />
        )}
        <Button
          text={log.pages.busy ? 'Loading…' : 'Older'}
          disabled={log.atStart || log.pages.busy}
          onClick={() => log.pages.older()}
        />
        {isPaused && log.behind > 0 && <Button text="Newer" disabled={log.pages.busy} onClick={log.pages.newer} />}
        <Button text="Jump to…" disabled={log.pages.busy} onClick={() => setJumps(true)} />
        {!isPaused && !atEnd && <Button text="Newest" onClick={toNewest} />}
        <p class="note count">{countLine(log, seen.length, filter.narrows)}</p>
      </div>
      <LogList ref={list} rows={seen} follows={!isPaused} onOpen={show} onAtEnd={setAtEnd} />
      <p class="note legend">
        <b>?</b> the clock was not set <b>~</b> its time was corrected later. Enter opens an entry.
      </p>
      {jumps && (
        <JumpDialog
          near={log.buffer.rows}
          onJump={(sinceMs) => log.pages.jump(sinceMs)}
          onClose={() => setJumps(false)}
        />
      )}
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

const HOUR_MS = 3_600_000;

function JumpDialog(props: {
  near: readonly Row[];
  onJump: (sinceMs: number) => void;
  onClose: () => void;
}): JSX.Element {
  const [typed, setTyped] = useState(() => {
    const last = props.near.findLast((row) => row.kind === 'entry');
    return last?.kind === 'entry' ? fieldText(last.timestampMs - HOUR_MS) : '';
  });
  const [fault, setFault] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    const ms = msOfLocalTime(typed);
    if (!(ms > 0)) return setFault('Type a day and a time');
    props.onJump(ms);
    props.onClose();
  };
  return (
    <Dialog title="Jump to a time" onClose={props.onClose}>
      <form onSubmit={submit}>
        <TextField
          label="Time"
          hint="In the time zone of this browser. The log is shown from the first entry of that time on, and does not move."
          fault={fault}
          input={{ type: 'datetime-local', step: 1, max: '9999-12-31T23:59:59' }}
          value={typed}
          onChange={setTyped}
        />
        <button type="submit" class="main">
          Jump
        </button>
      </form>
    </Dialog>
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
const NOTHING_MORE = 'The log has no entry from there on.';

type Log = ReturnType<typeof useLog>;

function useLog() {
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
    pages.leave();
    // More than the page can hold: continue with the newest.
    if (buffer.lastId === 0 || behind > MAX_ROWS) reader.startAtNewest();
    else reader.startAfter(buffer.lastId);
  };
  const append = async (read: Promise<readonly Row[]>): Promise<void> => {
    const found = await read;
    setNotice(found.length === 0 ? NOTHING_MORE : '');
    buffer.append(found);
  };
  return {
    buffer,
    feed,
    /** New entries since the pause. */
    behind,
    /** The first entry of the log is in the buffer. */
    atStart: buffer.firstId <= Math.max(1, firstStored, pages.startId),
    pages: {
      busy: pages.busy,
      problem: pages.problem,
      older(): void {
        reader.pause();
        pages.older(buffer, firstStored);
      },
      newer: () => pages.load((signal) => append(firstRows(api, `after=${buffer.lastId}`, signal))),
      jump(sinceMs: number): void {
        reader.pause();
        pages.forget();
        buffer.clear();
        setNotice('');
        pages.load((signal) => append(firstRows(api, `sinceMs=${sinceMs}`, signal)));
      },
    },
    notice,
    pause: () => reader.pause(),
    resume,
  };
}

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
        const read: ReadRows = (after, limit, take) => readPage(api, `after=${after}&limit=${limit}`, signal, take);
        const rows = await olderRows(read, firstId, firstStored);
        signal.throwIfAborted();
        if (rows.length === 0) setStartId(firstId);
        buffer.prepend(rows);
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
        if (message.type === 'end') throw new ProblemError(localProblem('The log was disconnected', message.message));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
