/** The live log with its controls. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countText, plural } from '../../format.ts';
import type { FeedState } from '../../log-feed.ts';
import { type EntryRow, everything, filterFor, type Row, type Wanted, withEvents } from '../../rows.ts';
import type { LogView } from '../../selection.ts';
import { text } from '../../text.ts';
import { hashOf, placeOf, withQuery } from '../../views.ts';
import { useLine } from '../line-status.tsx';
import { Button, ProblemBox, Section, Select, TextField, useMedia } from '../parts.tsx';
import { useKept } from '../session.ts';
import { ExportDialog } from './export-dialog.tsx';
import { EntryDialog, JumpDialog } from './log-dialogs.tsx';
import { LogList, type LogListHandle } from './log-list.tsx';
import { type Log, useEvents, useLog } from './log-model.ts';
import { SearchDialog } from './search-dialog.tsx';

export function LogPanel(): JSX.Element {
  const log = useLog();
  const events = useEvents();
  const [{ jumpMs, untilMs, ...wanted }, want] = useAddress(log.pages.jump);
  const [view, setView] = useKept<LogView>(VIEW_KEY, views);
  const [shown, show] = useState<EntryRow>();
  const [asks, ask] = useState<'jump' | 'search' | 'export'>();
  const [atEnd, setAtEnd] = useState(true);
  // On a phone the log is what the technician came for.
  const isWide = useMedia('(min-width: 700px)');
  const [finds, setFinds] = useState(filterFor(wanted).narrows);
  const list = useRef<LogListHandle>(null);
  const filter = useMemo(() => filterFor(wanted), [wanted.dir, wanted.text, wanted.as]);
  const isPaused = log.feed.is === 'paused';
  const narrows = filter.narrows || untilMs > 0;
  const { seen, between } = useShown(log, events, filter, untilMs, wanted.text !== '');
  const jump = (sinceMs: number, endMs: number): void => {
    want({ ...wanted, jumpMs: sinceMs, untilMs: endMs });
    log.pages.jump(sinceMs, endMs);
  };
  const jumpToMatch = (ms: number): void => {
    // The text of the filter may hide it.
    want({ ...wanted, text: '', jumpMs: ms, untilMs: 0 });
    log.pages.jump(ms, 0);
  };
  const toNewest = (): void => {
    want({ ...wanted, jumpMs: 0, untilMs: 0 });
    if (isPaused || log.feed.is === 'refused') log.resume();
    list.current?.toEnd();
  };

  return (
    <Section title={text.log.title} class="log" actions={<FeedBadge feed={log.feed} />}>
      <FeedProblem feed={log.feed} onAgain={log.resume} />
      <ProblemBox problem={log.pages.problem} />
      {log.notice !== '' && <p class="note">{log.notice}</p>}
      {(isWide || finds) && (
        <Filters
          wanted={wanted}
          view={view}
          fault={filter.fault}
          onChange={(next) => want({ ...next, jumpMs, untilMs })}
          onView={setView}
        />
      )}
      <div class="row log-tools">
        <Tools log={log} untilMs={untilMs} onResume={toNewest} onJump={() => ask('jump')} />
        {!isWide && <Button text={text.log.find} aria-expanded={finds} onClick={() => setFinds(!finds)} />}
        {(isWide || finds) && <Button text={text.log.stored.open} onClick={() => ask('search')} />}
        {(isWide || finds) && <Button text={text.log.export.open} onClick={() => ask('export')} />}
        {!isPaused && !atEnd && <Button text={text.log.newest} onClick={toNewest} />}
      </div>
      <LogList
        ref={list}
        rows={between}
        count={countLine(log, seen.length, narrows)}
        view={view}
        follows={!isPaused}
        onOpen={show}
        onAtEnd={setAtEnd}
      />
      {asks === 'jump' && (
        <JumpDialog near={log.buffer.rows} untilMs={untilMs} onJump={jump} onClose={() => ask(undefined)} />
      )}
      {asks === 'search' && (
        <SearchDialog wanted={wanted} sinceMs={jumpMs} onJump={jumpToMatch} onClose={() => ask(undefined)} />
      )}
      {asks === 'export' && (
        <ExportDialog wanted={wanted} sinceMs={jumpMs} untilMs={untilMs} onClose={() => ask(undefined)} />
      )}
      {shown !== undefined && <EntryDialog entry={shown} onClose={() => show(undefined)} />}
    </Section>
  );
}

/** The rows that match, and the same with the events between them. */
function useShown(
  log: Log,
  events: ReturnType<typeof useEvents>,
  { narrows, matches }: ReturnType<typeof filterFor>,
  untilMs: number,
  isSearch: boolean,
) {
  const { rows, version } = log.buffer;
  const isPaused = log.feed.is === 'paused';
  const seen = useMemo(() => {
    const isShown = (row: Row): boolean => matches(row) && (row.kind === 'gap' || isBefore(row, untilMs));
    return narrows || untilMs > 0 ? rows.filter(isShown) : [...rows];
  }, [narrows, matches, rows, version, untilMs]);
  const between = useMemo(() => {
    // What matches a text is shown alone.
    if (isSearch) return seen;
    const shown = events.filter((event) => isBefore(event, untilMs));
    return withEvents(seen, shown, rows, !isPaused);
  }, [seen, events, isSearch, isPaused]);
  return { seen, between };
}

function Tools(props: { log: Log; untilMs: number; onResume: () => void; onJump: () => void }): JSX.Element {
  const { feed, pages, behind, atStart, pause } = props.log;
  const isPaused = feed.is === 'paused';
  return (
    <>
      {isPaused ? (
        <Button text={text.log.resume} class="main" onClick={props.onResume} />
      ) : (
        <Button text={text.log.pause} onClick={pause} />
      )}
      <Button
        text={pages.busy ? text.log.loading : text.log.older}
        disabled={atStart || pages.busy}
        onClick={() => pages.older()}
      />
      {isPaused && behind > 0 && (
        <Button text={text.log.newer} disabled={pages.busy} onClick={() => pages.newer(props.untilMs)} />
      )}
      <Button text={text.log.jumpTo} disabled={pages.busy} onClick={props.onJump} />
    </>
  );
}

interface Address extends Wanted {
  /** The time that the log is shown from; 0: it is followed. */
  readonly jumpMs: number;
  /** Entries from this time on are hidden; 0: there is no end. */
  readonly untilMs: number;
}

/** What is searched for, and where in the log one is: in the address, so that a link can be sent. */
function useAddress(jump: (sinceMs: number, untilMs: number) => void): readonly [Address, (next: Address) => void] {
  const [address, setAddress] = useState(() => addressOf(placeOf(location.hash)?.query ?? {}));
  const want = (next: Address): void => {
    setAddress(next);
    const { dir, as, jumpMs, untilMs } = next;
    const query = {
      dir: dir === everything.dir ? '' : dir,
      text: next.text,
      as: as === everything.as || next.text === '' ? '' : as,
      at: jumpMs === 0 ? '' : String(jumpMs),
      until: untilMs === 0 ? '' : String(untilMs),
    };
    try {
      // No view of its own to go back to with each letter that is typed.
      history.replaceState(null, '', withQuery(hashOf('line'), query));
    } catch {
      // A browser may refuse many changes within seconds: the address is right again after the next one.
    }
  };
  const now = useRef({ address, jump });
  now.current = { address, jump };
  useEffect(() => {
    // At the begin, and for a link that is opened in this page.
    const enter = (): void => {
      const place = placeOf(location.hash);
      if (place?.section !== 'line') return;
      // Back from another view, where nothing was forgotten.
      if (Object.keys(place.query).length === 0) return want(now.current.address);
      const next = addressOf(place.query);
      want(next);
      if (next.jumpMs > 0) now.current.jump(next.jumpMs, next.untilMs);
    };
    enter();
    addEventListener('hashchange', enter);
    return () => removeEventListener('hashchange', enter);
  }, []);
  return [address, want];
}

function addressOf({ dir, text: typed = '', as, at, until }: Readonly<Record<string, string>>): Address {
  return {
    dir: dir === 'rx' || dir === 'tx' ? dir : 'all',
    text: typed,
    as: as === 'hex' ? 'hex' : 'text',
    jumpMs: msOf(at),
    // Without a begin the log is followed.
    untilMs: msOf(at) === 0 ? 0 : msOf(until),
  };
}

function msOf(text: string | undefined): number {
  const ms = Math.trunc(Number(text));
  return Number.isSafeInteger(ms) && ms > 0 ? ms : 0;
}

function isBefore({ timestampMs }: { readonly timestampMs: number }, untilMs: number): boolean {
  return untilMs === 0 || timestampMs < untilMs;
}

const VIEW_KEY = 'lineside.log.view';
const views = ['both', 'text', 'hex'] as const satisfies readonly LogView[];

function countLine(log: Log, seen: number, narrows: boolean): string {
  const all = plural(log.buffer.rows.length, 'row');
  const count = narrows ? text.log.someOf(countText(seen), all) : all;
  return log.feed.is === 'paused' && log.behind > 0 ? `${count}, ${text.log.newerRows(countText(log.behind))}` : count;
}

const looks: Readonly<Record<FeedState['is'], string>> = {
  live: 'good',
  stale: 'bad',
  connecting: 'idle',
  waiting: 'bad',
  paused: 'idle',
  refused: 'bad',
};

function FeedBadge({ feed }: { feed: FeedState }): JSX.Element {
  const { value, isFresh } = useLine();
  const usual = looks[feed.is];
  // A log that is followed says nothing good of a port that is not open, or not known to be.
  const look = usual === 'good' && !(isFresh && value?.portState === 'open') ? 'idle' : usual;
  return (
    <span id="feed" data-feed={feed.is} class={`badge ${look}`} role="status">
      <span class="unseen">{text.log.label}</span>
      {text.log.states[feed.is]}
    </span>
  );
}

function FeedProblem({ feed, onAgain }: { feed: FeedState; onAgain: () => void }): JSX.Element | null {
  if (feed.is === 'waiting')
    return <ProblemBox problem={{ ...feed.problem, hint: feed.problem.hint || text.log.again }} />;
  if (feed.is !== 'refused') return null;
  return (
    <>
      <ProblemBox problem={feed.problem} />
      <Button text={text.log.tryAgain} onClick={onAgain} />
    </>
  );
}

function Filters(props: {
  wanted: Wanted;
  view: LogView;
  fault: string;
  onChange: (wanted: Wanted) => void;
  onView: (view: LogView) => void;
}): JSX.Element {
  const { wanted, onChange } = props;
  return (
    <div class="row filters">
      <Select
        label={text.log.direction}
        value={wanted.dir}
        options={(['all', 'rx', 'tx'] as const).map((dir) => [dir, text.log.directions[dir]] as const)}
        onChange={(dir) => onChange({ ...wanted, dir })}
      />
      <TextField
        label={text.log.search}
        fault={props.fault}
        class="wide"
        input={{ type: 'search', class: 'mono' }}
        value={wanted.text}
        onChange={(typed) => onChange({ ...wanted, text: typed })}
      />
      <Select
        label={text.log.as}
        value={wanted.as}
        options={['text', 'hex']}
        onChange={(as) => onChange({ ...wanted, as })}
      />
      <Select
        label={text.log.show}
        value={props.view}
        options={views.map((view) => [view, text.log.views[view]] as const)}
        onChange={props.onView}
      />
    </div>
  );
}
