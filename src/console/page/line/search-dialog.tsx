/** What opens over the log to search all that the box has stored; a match that is chosen is shown in the log. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { msOfLocalTime } from '../../../shared/base/instant.ts';
import { countText, dayText, fieldText, plural, sizeText, timeText } from '../../format.ts';
import { localProblem, type Problem, problemFrom } from '../../problem.ts';
import type { Wanted } from '../../rows.ts';
import { type Match, type Message, messagesOf, type Progress } from '../../stream.ts';
import { text } from '../../text.ts';
import { Button, Dialog, ProblemBox, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { timeInput } from './log-dialogs.tsx';

const words = text.log.stored;
type Kind = Wanted['as'] | 'regex';
const kinds = [
  ['text', words.kinds.text],
  ['hex', words.kinds.hex],
  ['regex', words.kinds.regex],
] as const satisfies readonly (readonly [Kind, string])[];

export function SearchDialog(props: {
  wanted: Wanted;
  sinceMs: number;
  onJump: (sinceMs: number) => void;
  onClose: () => void;
}): JSX.Element {
  const [kind, setKind] = useState<Kind>(props.wanted.as);
  const [pattern, setPattern] = useState(props.wanted.text);
  const [since, setSince] = useState(props.sinceMs > 0 ? fieldText(props.sinceMs) : '');
  const [fault, setFault] = useState('');
  const of = useSearch();
  const { busy, run } = of;
  const search = (): void => {
    setFault(pattern === '' ? words.empty : '');
    if (pattern === '') return;
    const sinceMs = msOfLocalTime(since);
    const query = [
      `${kind}=${encodeURIComponent(pattern)}`,
      ...(kind === 'hex' ? [] : ['ignoreCase=true']),
      ...(props.wanted.dir === 'all' ? [] : [`dir=${props.wanted.dir}`]),
      ...(sinceMs > 0 ? [`sinceMs=${sinceMs}`] : []),
    ];
    void run(query.join('&'));
  };
  return (
    <Dialog title={words.title} leave={text.parts.close} onClose={props.onClose}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          search();
        }}
      >
        <TextField
          label={words.pattern}
          fault={fault}
          input={{ maxLength: 1_024 }}
          value={pattern}
          onChange={setPattern}
        />
        <Select label={words.kind} value={kind} options={kinds} onChange={setKind} />
        <TextField label={words.since} hint={words.sinceHint} input={timeInput} value={since} onChange={setSince} />
        <button type="submit" class="main" disabled={busy}>
          {words.run}
        </button>
        {busy && <Button text={text.parts.cancel} onClick={of.stop} />}
      </form>
      <ProblemBox problem={of.problem} />
      <Results
        of={of}
        onJump={(ms) => {
          props.onJump(ms);
          props.onClose();
        }}
      />
    </Dialog>
  );
}

function Results(props: { of: ReturnType<typeof useSearch>; onJump: (ms: number) => void }): JSX.Element {
  const { found, isWhole, progress, more } = props.of;
  const columns: readonly Column<Match>[] = [
    {
      head: words.time,
      isName: true,
      cell: ({ timestampMs: ms }) => (
        <Button text={`${dayText(ms)} ${timeText(ms)}`} class="quiet" onClick={() => props.onJump(ms)} />
      ),
    },
    { head: text.log.direction, cell: ({ dir }) => text.log.directions[dir] },
    { head: words.entry, isNumber: true, cell: ({ entryId }) => countText(entryId) },
  ];
  const matches = plural(found?.length ?? 0, 'match', 'matches');
  return (
    <>
      {progress !== undefined && (
        <p role="status">{words.soFar(matches, countText(progress.entries), sizeText(progress.bytes))}</p>
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

/** One search at a time; it ends with the dialog. */
function useSearch() {
  const { api } = useSession();
  const [found, setFound] = useState<readonly Match[]>();
  const [progress, setProgress] = useState<Progress>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const [isWhole, setWhole] = useState(false);
  /** Where this search is to go on, if it has not come to its end. */
  const [next, setNext] = useState<{ readonly query: string; readonly after: string }>();
  const own = useRef<AbortController>(undefined);
  useEffect(() => () => own.current?.abort(), []);
  const run = async (query: string, after = ''): Promise<void> => {
    const { signal } = (own.current = new AbortController());
    setBusy(true);
    setProblem(undefined);
    setNext(undefined);
    setWhole(false);
    let all: readonly Match[] = after === '' ? [] : (found ?? []);
    setFound(all);
    let logId = '';
    let isEnded = false;
    const take = (message: Message): void => {
      if (message.type === 'log') logId = message.logId;
      else if (message.type === 'progress') setProgress(message);
      else if (message.type === 'done' && message.reason === 'complete') setWhole(true);
      else if (message.type === 'done') setNext({ query, after: `&after=${message.resumeAfterId}&logId=${logId}` });
      else if (message.type === 'end') setProblem(localProblem(words.failed, message.message));
      isEnded ||= message.type === 'done' || message.type === 'end';
    };
    try {
      for await (const messages of messagesOf(await api.stream(`/api/v1/line/log/search?${query}${after}`, signal))) {
        all = [...all, ...messages.filter((one) => one.type === 'match')];
        setFound(all);
        for (const message of messages) take(message);
      }
      if (!isEnded) setProblem(localProblem(words.failed, words.cutShort));
    } catch (error) {
      if (!signal.aborted) setProblem(problemFrom(error));
    }
    setBusy(false);
  };
  const more = next === undefined ? undefined : (): void => void run(next.query, next.after);
  return { busy, found, isWhole, problem, progress, more, run, stop: () => own.current?.abort() };
}
