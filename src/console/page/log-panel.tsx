/** The live log with its controls. */
import type { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { dumpLines } from '../bytes.ts';
import { countText, dayText, plural, timeText } from '../format.ts';
import type { FeedState } from '../log-feed.ts';
import { type EntryRow, everything, filterFor, type Wanted } from '../rows.ts';
import { useLine } from './line-status.tsx';
import { LogList, type LogListHandle } from './log-list.tsx';
import { Button, Dialog, Dump, Facts, ProblemBox, Section, Select, TextField } from './parts.tsx';
import { type Log, useLog } from './use-log.ts';

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
        {lines.map(({ offset, hex, text }) => `${offset}  ${hex.padEnd(width * 3 - 1)}  ${text}\n`).join('')}
      </Dump>
      {hidden > 0 && <p class="note">{plural(hidden, 'more byte')}: the command line shows them, "lineside log".</p>}
    </Dialog>
  );
}
