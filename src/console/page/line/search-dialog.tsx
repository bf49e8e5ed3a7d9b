/** What opens over the log to search all that the box has stored; a match that is chosen is shown in the log. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { countText, dayText, fieldText, plural, sizeText, timeText } from '../../format.ts';
import type { Wanted } from '../../rows.ts';
import type { Match } from '../../stream.ts';
import { text } from '../../text.ts';
import { withQuery } from '../../views.ts';
import { Button, Dialog, ProblemBox, Select, TextField } from '../parts.tsx';
import { type Column, Table } from '../table.tsx';
import type { StoredSearch } from './log-address.ts';
import { msOfField, RangeFields } from './log-dialogs.tsx';
import { Histogram } from './log-histogram.tsx';
import type { EntryPlace } from './log-model.ts';
import type { StoredSearches } from './stored-search.ts';

const words = text.log.stored;
const kinds = [
  ['text', words.kinds.text],
  ['hex', words.kinds.hex],
  ['regex', words.kinds.regex],
] as const satisfies readonly (readonly [StoredSearch['kind'], string])[];

export function SearchDialog(props: {
  search: StoredSearch;
  dir: Wanted['dir'];
  onChange: (changed: { readonly search?: StoredSearch; readonly dir?: Wanted['dir'] }) => void;
  of: StoredSearches;
  onChoose: (entry: EntryPlace, dir: Match['dir']) => void;
  onClose: () => void;
}): JSX.Element {
  const { search, dir, of } = props;
  const { pattern, kind, matchesCase, fromMs, toMs } = search;
  // As they are typed: a year of two digits is a time, too.
  const [from, setFrom] = useState(fieldOf(fromMs));
  const [until, setUntil] = useState(fieldOf(toMs));
  const [fault, setFault] = useState('');
  const [badRange, setBadRange] = useState('');
  const change = (changed: Partial<StoredSearch>): void => props.onChange({ search: { ...search, ...changed } });
  const submit = (event: Event): void => {
    event.preventDefault();
    const isBad = toMs > 0 && toMs <= fromMs;
    setFault(pattern === '' ? words.empty : '');
    setBadRange(isBad ? text.log.range.fault : '');
    if (pattern !== '' && !isBad) of.run(requestOf(search, dir));
  };
  return (
    <Dialog title={words.title} leave={text.parts.close} onClose={props.onClose}>
      <form onSubmit={submit}>
        <TextField
          label={words.pattern}
          fault={fault}
          input={{ maxLength: 1_024 }}
          value={pattern}
          onChange={(typed) => change({ pattern: typed })}
        />
        <div class="row">
          <Select label={words.kind} value={kind} options={kinds} onChange={(next) => change({ kind: next })} />
          <Select
            label={text.log.direction}
            value={dir}
            options={(['all', 'rx', 'tx'] as const).map((one) => [one, text.log.directions[one]] as const)}
            onChange={(next) => props.onChange({ dir: next })}
          />
        </div>
        {kind !== 'hex' && (
          <label class="check">
            <input type="checkbox" checked={matchesCase} onChange={() => change({ matchesCase: !matchesCase })} />
            {words.matchCase}
          </label>
        )}
        <RangeFields
          from={from}
          until={until}
          fault={badRange}
          onFrom={(typed) => {
            setFrom(typed);
            change({ fromMs: msOfField(typed) });
          }}
          onUntil={(typed) => {
            setUntil(typed);
            change({ toMs: msOfField(typed) });
          }}
        />
        <Histogram
          fromMs={fromMs}
          toMs={toMs}
          onChoose={(span) => {
            setFrom(fieldOf(span.fromMs));
            setUntil(fieldOf(span.toMs));
            change(span);
          }}
        />
        <Foot of={of} />
      </form>
      <ProblemBox problem={of.problem} />
      <Results of={of} onChoose={props.onChoose} />
    </Dialog>
  );
}

function Foot({ of }: { of: StoredSearches }): JSX.Element {
  return (
    <div class="row foot">
      <button type="submit" class="main" disabled={of.busy}>
        {words.run}
      </button>
      {of.busy && <Button text={text.parts.cancel} onClick={of.stop} />}
    </div>
  );
}

function fieldOf(ms: number): string {
  return ms === 0 ? '' : fieldText(ms);
}

function requestOf({ pattern, kind, matchesCase, fromMs, toMs }: StoredSearch, dir: Wanted['dir']): string {
  return withQuery('/api/v1/line/log/search', {
    [kind]: pattern,
    ignoreCase: kind === 'hex' || matchesCase ? '' : 'true',
    dir: dir === 'all' ? '' : dir,
    sinceMs: fromMs === 0 ? '' : String(fromMs),
    untilMs: toMs === 0 ? '' : String(toMs),
  });
}

function Results(props: { of: StoredSearches; onChoose: (entry: EntryPlace, dir: Match['dir']) => void }): JSX.Element {
  const { found, isWhole, progress, more, logId } = props.of;
  const columns: readonly Column<Match>[] = [
    {
      head: words.time,
      isName: true,
      cell: ({ timestampMs: ms, entryId: id, dir }) => (
        <Button
          text={`${dayText(ms)} ${timeText(ms)}`}
          class="quiet"
          onClick={() => props.onChoose({ id, logId }, dir)}
        />
      ),
    },
    { head: text.log.direction, cell: ({ dir }) => text.log.directions[dir] },
    { head: words.entry, isNumber: true, cell: ({ entryId }) => countText(entryId) },
  ];
  const said = useRef<HTMLParagraphElement>(null);
  const hasBegun = progress !== undefined;
  // On a phone the fields fill the screen.
  useEffect(() => {
    if (hasBegun) said.current?.scrollIntoView({ block: 'start' });
  }, [hasBegun]);
  const matches = plural(found?.length ?? 0, 'match', 'matches');
  return (
    <>
      {progress !== undefined && (
        <p role="status" ref={said}>
          {words.soFar(matches, countText(progress.entries), sizeText(progress.bytes))}
        </p>
      )}
      {found !== undefined && (found.length > 0 || isWhole) && (
        <Table
          of={{
            items: found,
            hasMore: more !== undefined,
            problem: undefined,
            more: () => more?.(),
          }}
          caption={words.title}
          columns={columns}
          idOf={({ entryId, offset }) => `${entryId} ${offset}`}
          none={words.none}
        />
      )}
    </>
  );
}
