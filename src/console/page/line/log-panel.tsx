/** The live log with its controls. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countText, plural } from '../../format.ts';
import type { FeedState } from '../../log-feed.ts';
import { type EntryRow, filterFor, type Row, type Wanted, withEvents } from '../../rows.ts';
import type { LogView } from '../../selection.ts';
import { text } from '../../text.ts';
import { useLine } from '../line-status.tsx';
import { Button, ProblemBox, Section, Select, TextField, useMedia } from '../parts.tsx';
import { useKept } from '../session.ts';
import { ExportDialog } from './export-dialog.tsx';
import { useAddress } from './log-address.ts';
import { EntryDialog, JumpDialog } from './log-dialogs.tsx';
import { LogList, type LogListHandle } from './log-list.tsx';
import { type Log, useEvents, useLog } from './log-model.ts';
import { SearchDialog } from './search-dialog.tsx';
import { useSearches } from './stored-search.ts';

export function LogPanel(): JSX.Element {
  const log = useLog();
  const events = useEvents();
  const [address, want, links] = useAddress(log.pages.go);
  const { jumpMs, entry: _, untilMs, search, ...wanted } = address;
  const [view, setView] = useKept<LogView>(VIEW_KEY, views);
  const searches = useSearches(address, want, links);
  const [shown, show] = useState<EntryRow>();
  const [asks, ask] = useState<'jump' | 'export'>();
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
    want({ jumpMs: sinceMs, entry: undefined, untilMs: endMs });
    log.pages.jump(sinceMs, endMs);
  };
  useEffect(() => {
    if (log.pages.target !== undefined) list.current?.show(log.pages.target.id);
  }, [log.pages.target]);
  const toNewest = (): void => {
    want({ jumpMs: 0, entry: undefined, untilMs: 0 });
    if (isPaused || log.feed.is === 'refused') log.resume();
    list.current?.toEnd();
  };

  return (
    <Section title={text.log.title} class="log" actions={<FeedBadge feed={log.feed} />}>
      <FeedProblem feed={log.feed} onAgain={log.resume} />
      <ProblemBox problem={log.pages.problem} />
      {log.notice !== '' && <p class="note">{log.notice}</p>}
      {(isWide || finds) && (
        <Filters wanted={wanted} view={view} fault={filter.fault} onChange={want} onView={setView} />
      )}
      <div class="row log-tools">
        <Tools log={log} untilMs={untilMs} onResume={toNewest} />
        {!isWide && <Button text={text.log.find} aria-expanded={finds} onClick={() => setFinds(!finds)} />}
        <Button text={text.log.stored.open} onClick={searches.open} />
        {(isWide || finds) && <Button text={text.log.jumpTo} disabled={log.pages.busy} onClick={() => ask('jump')} />}
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
      {search !== undefined && (
        <SearchDialog
          key={links}
          search={search}
          dir={wanted.dir}
          of={searches}
          onChange={want}
          onChoose={(entry, dir) => {
            searches.choose(entry, dir);
            log.pages.showEntry(entry);
          }}
          onClose={searches.close}
        />
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

function Tools(props: { log: Log; untilMs: number; onResume: () => void }): JSX.Element {
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
    </>
  );
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
