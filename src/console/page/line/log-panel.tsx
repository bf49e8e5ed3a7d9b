/** The live log with its controls. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { countText, plural } from '../../format.ts';
import { cutsOf, LineBuffer } from '../../lines.ts';
import type { FeedState } from '../../log-feed.ts';
import { type BytesRow, filterFor, type GapRow, type Wanted, withEvents } from '../../rows.ts';
import type { LogView } from '../../selection.ts';
import { text } from '../../text.ts';
import { useLine } from '../line-status.tsx';
import { Button, ProblemBox, Section, Select, TextField, useMedia } from '../parts.tsx';
import { ExportDialog } from './export-dialog.tsx';
import { type Address, useAddress } from './log-address.ts';
import { BytesDialog, JumpDialog } from './log-dialogs.tsx';
import { LogList, type LogListHandle } from './log-list.tsx';
import { type Log, useEvents, useLog } from './log-model.ts';
import { SearchDialog } from './search-dialog.tsx';
import { useSearches } from './stored-search.ts';
import { ViewSwitch } from './view-choice.tsx';

/** `isShown`: not while the terminal stands in its place. */
export function LogPanel({ view, isShown }: { view: LogView; isShown: boolean }): JSX.Element {
  const log = useLog();
  const [address, want, links] = useAddress(log.pages.go);
  const { jumpMs, entry: _, untilMs, search, ...wanted } = address;
  const searches = useSearches(address, want, links);
  const [shown, show] = useState<BytesRow>();
  const [asks, ask] = useState<'jump' | 'export'>();
  const [atEnd, setAtEnd] = useState(true);
  // On a phone the log is what the technician came for.
  const isWide = useMedia('(min-width: 700px)');
  const [isOpen, setOpen] = useState(filterFor(wanted).narrows);
  const list = useRef<LogListHandle>(null);
  const isPaused = log.feed.is === 'paused';
  const { fault, count, says, rows } = useShown(log, address, view);
  const jump = (sinceMs: number, endMs: number): void => {
    want({ jumpMs: sinceMs, entry: undefined, untilMs: endMs });
    log.pages.jump(sinceMs, endMs);
  };
  useEffect(() => {
    const wanted = log.buffer.rows.find(({ id }) => id === log.pages.target?.id);
    if (wanted !== undefined) list.current?.show(wanted);
  }, [log.pages.target]);
  const toNewest = (): void => {
    want({ jumpMs: 0, entry: undefined, untilMs: 0 });
    if (isPaused || log.feed.is === 'refused') log.resume();
    list.current?.toEnd();
  };
  const leaveForNewest = (): void => {
    toNewest();
    // The button that was pressed is removed.
    list.current?.focus();
  };

  return (
    <Section title={text.log.title} class="log" actions={<FeedBadge feed={log.feed} />}>
      <FeedProblem feed={log.feed} onAgain={log.resume} />
      <ProblemBox problem={log.pages.problem} />
      {log.notice !== '' && <p class="note">{log.notice}</p>}
      {(isWide || isOpen) && <Filters wanted={wanted} fault={fault} isShown={isShown} onChange={want} />}
      <div class="row log-tools">
        <Tools log={log} untilMs={untilMs} onResume={toNewest} />
        {!isWide && <Button text={text.log.openFilter} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />}
        <Button text={text.log.stored.open} onClick={searches.open} />
        {(isWide || isOpen) && <Button text={text.log.jumpTo} disabled={log.pages.busy} onClick={() => ask('jump')} />}
        {(isWide || isOpen) && <Button text={text.log.export.open} onClick={() => ask('export')} />}
        {!isPaused && !atEnd && <Button text={text.log.newest} onClick={leaveForNewest} />}
      </div>
      <LogList
        ref={list}
        rows={rows}
        count={count}
        says={says}
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
      {shown !== undefined && <BytesDialog row={shown} onClose={() => show(undefined)} />}
    </Section>
  );
}

/** The rows that match, with the events between them, and how many there are without these. */
function useShown(log: Log, { dir, text: typed, as, untilMs }: Address, view: LogView) {
  const events = useEvents();
  const { rows, version } = log.buffer;
  const isPaused = log.feed.is === 'paused';
  const isLines = view === 'lines';
  const { fault, narrows, matches } = useMemo(() => filterFor({ dir, text: typed, as }), [dir, typed, as]);
  const lines = useMemo(() => (isLines ? new LineBuffer() : undefined), [log.buffer, isLines]);
  const cuts = useMemo(() => cutsOf(events), [events]);
  const all = useMemo(() => lines?.update(rows, cuts) ?? [...rows], [lines, rows, version, cuts]);
  const seen = useMemo(() => {
    const isShown = (row: BytesRow | GapRow): boolean => matches(row) && (row.kind === 'gap' || isBefore(row, untilMs));
    return narrows || untilMs > 0 ? all.filter(isShown) : all;
  }, [narrows, matches, all, untilMs]);
  const between = useMemo(() => {
    // What matches a text is shown alone.
    if (typed !== '') return seen;
    const shown = events.filter((event) => isBefore(event, untilMs));
    return withEvents(seen, shown, rows, !isPaused);
  }, [seen, events, typed, isPaused]);
  const whole = plural(all.length, isLines ? text.log.line : text.log.row);
  const count = narrows || untilMs > 0 ? text.log.someOf(countText(seen.length), whole) : whole;
  const newer = isPaused && log.behind > 0 && plural(log.behind, text.log.newerEntry, text.log.newerEntries);
  return { fault, count: seen.length, says: newer === false ? count : `${count}, ${newer}`, rows: between };
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
  fault: string;
  isShown: boolean;
  onChange: (wanted: Wanted) => void;
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
        label={text.log.filter}
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
      {props.isShown && <ViewSwitch on="desk" />}
    </div>
  );
}
