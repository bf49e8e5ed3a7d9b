/** The log as a file: which part of it, in which format, how far it is, and what is not in it. */
import type { ComponentChildren, JSX } from 'preact';
import { useContext, useEffect, useRef, useState } from 'preact/hooks';
import { systemClock } from '../../../shared/base/clock.ts';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { type LogFormat, logFormats } from '../../../shared/log-formats/log-formats.ts';
import { dayText, fieldText, plural, sizeText, timeText } from '../../format.ts';
import { type Exported, type ExportProgress, type ExportRange, exportLog } from '../../line/log-export.ts';
import { type Problem, problemFrom } from '../../problem.ts';
import type { Wanted } from '../../rows.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { Button, Dialog, ProblemBox, Select } from '../parts.tsx';
import { isCancel, openSink, type Sink } from '../save-file.ts';
import { BoxContext, useSession } from '../session.ts';
import { msOfField, RangeFields } from './log-dialogs.tsx';

const words = text.log.export;

type State =
  | { readonly is: 'form' }
  | { readonly is: 'running'; readonly progress: ExportProgress }
  | { readonly is: 'done'; readonly name: string; readonly range: ExportRange; readonly result: Exported }
  | { readonly is: 'cancelled' };

export function ExportDialog(props: {
  wanted: Wanted;
  sinceMs: number;
  untilMs: number;
  onClose: () => void;
}): JSX.Element {
  const { state, problem, run, stop } = useExport();
  const isRunning = state.is === 'running';
  const leave = state.is === 'done' ? text.parts.close : text.parts.cancel;
  return (
    <Dialog title={words.title} leave={leave} onClose={props.onClose}>
      <ProblemBox problem={problem} />
      <RangeForm {...props} onSubmit={run}>
        <button type="submit" class="main" disabled={isRunning}>
          {words.run}
        </button>
        {isRunning && <Button text={words.stop} onClick={stop} />}
      </RangeForm>
      {isRunning && <Progress of={state.progress} />}
      {state.is === 'cancelled' && <p role="status">{words.cancelled}</p>}
      {state.is === 'done' && <Outcome name={state.name} of={state.result} />}
      {state.is === 'done' && state.result.cutAfter !== undefined && (
        <Button text={words.next} onClick={() => run({ ...state.range, afterId: state.result.cutAfter?.id ?? 0 })} />
      )}
    </Dialog>
  );
}

/** One export at a time; it ends with the dialog. */
function useExport() {
  const { api } = useSession();
  const box = useContext(BoxContext);
  const [state, setState] = useState<State>({ is: 'form' });
  const [problem, setProblem] = useState<Problem>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const run = async (range: ExportRange): Promise<void> => {
    const own = new AbortController();
    stop.current = own;
    setProblem(undefined);
    let sink: Sink | undefined;
    try {
      sink = await openSink(fileName(box?.name ?? '', range));
      setState({ is: 'running', progress: { entries: 0, bytes: 0, share: 0 } });
      const result = await exportLog(
        { ...boxParts(api), ...sink, range, onProgress: (progress) => setState({ is: 'running', progress }) },
        own.signal,
      );
      if (result.entries + result.neverStored === 0) await sink.discard();
      else await sink.keep();
      setState({ is: 'done', name: sink.name, range, result });
    } catch (error) {
      await sink?.discard().catch(() => {});
      const isCancelled = own.signal.aborted || isCancel(error);
      if (!isCancelled) setProblem(problemFrom(error));
      setState({ is: isCancelled && sink !== undefined ? 'cancelled' : 'form' });
    }
  };
  return { state, problem, run: (range: ExportRange) => void run(range), stop: () => stop.current?.abort() };
}

function RangeForm(props: {
  wanted: Wanted;
  sinceMs: number;
  untilMs: number;
  onSubmit: (range: ExportRange) => void;
  children: ComponentChildren;
}): JSX.Element {
  const [format, setFormat] = useState<LogFormat>('text');
  const [from, setFrom] = useState(props.sinceMs > 0 ? fieldText(props.sinceMs) : '');
  const [until, setUntil] = useState(props.untilMs > 0 ? fieldText(props.untilMs) : '');
  const [dir, setDir] = useState(props.wanted.dir);
  const [finds, setFinds] = useState(props.wanted.text !== '');
  const [fault, setFault] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    const [sinceMs, untilMs] = [msOfField(from), msOfField(until)];
    const isBad = untilMs > 0 && untilMs <= sinceMs;
    setFault(isBad ? text.log.range.fault : '');
    const wanted = { ...props.wanted, dir, text: finds ? props.wanted.text : '' };
    if (!isBad) props.onSubmit({ format, wanted, sinceMs, untilMs, afterId: 0 });
  };
  return (
    <form onSubmit={submit} noValidate>
      <Select
        label={words.format}
        value={format}
        options={logFormats.map((one) => [one, words.formats[one]] as const)}
        onChange={setFormat}
      />
      <RangeFields from={from} until={until} fault={fault} onFrom={setFrom} onUntil={setUntil} />
      <Select
        label={text.log.direction}
        value={dir}
        options={(['all', 'rx', 'tx'] as const).map((one) => [one, text.log.directions[one]] as const)}
        onChange={setDir}
      />
      {props.wanted.text !== '' && (
        <label class="check">
          <input type="checkbox" checked={finds} onChange={(event) => setFinds(event.currentTarget.checked)} />
          {words.matching(props.wanted.as, props.wanted.text)}
        </label>
      )}
      <div class="row foot">{props.children}</div>
    </form>
  );
}

function Progress({ of: { entries, bytes, share } }: { of: ExportProgress }): JSX.Element {
  return (
    <div class="progress">
      <progress max={1} value={share} aria-label={words.progress} />
      <span>{words.soFar(plural(entries, 'entry', 'entries'), sizeText(bytes))}</span>
    </div>
  );
}

/** What is in the file, and exactly what is not. */
function Outcome({ name, of }: { name: string; of: Exported }): JSX.Element {
  const { entries, bytes, neverStored, removedBeforeMs, removedMeanwhile, cutAfter } = of;
  const count = (number: number): string => plural(number, 'entry', 'entries');
  const timeOf = (ms: number): string => `${dayText(ms)} ${timeText(ms)}`;
  const isEmpty = entries + neverStored === 0;
  const sentences = [
    isEmpty ? words.nothing : words.done(count(entries), sizeText(bytes), name),
    removedBeforeMs === undefined ? '' : words.removedBefore(timeOf(removedBeforeMs)),
    removedMeanwhile === 0 ? '' : words.removedMeanwhile(count(removedMeanwhile)),
    neverStored === 0 ? '' : words.neverStored(count(neverStored)),
    cutAfter === undefined ? '' : words.cut(sizeText(bytes), timeOf(cutAfter.ms)),
  ].filter((sentence) => sentence !== '');
  return (
    <div role="status">
      {sentences.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
    </div>
  );
}

/** Digits of a time without what file names forbid: "2026-11-27T130509". */
function fileName(box: string, { format, sinceMs, afterId }: ExportRange): string {
  const place = afterId > 0 ? `after-${afterId}` : sinceMs > 0 ? fieldText(sinceMs).replaceAll(':', '') : 'all';
  const parts = ['lineside', box.replaceAll(/[^\w.-]+/g, '-'), place].filter((part) => part !== '');
  return `${parts.join('-')}.${extensions[format]}`;
}

const extensions: Readonly<Record<LogFormat, string>> = { text: 'txt', jsonl: 'jsonl', pcapng: 'pcapng', raw: 'bin' };

function boxParts(api: Api) {
  return {
    clock: systemClock,
    open: (query: string, signal: AbortSignal) => api.stream(`/api/v1/line/log?${query}`, signal),
    stored: async (signal: AbortSignal) => (await api.get<LineStatus>('/api/v1/line', signal)).log,
  };
}
