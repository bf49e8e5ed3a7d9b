/** Import of a file: read and checked in the page, shown, then sent as one transaction: all or nothing. */
import type { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import type { ImportResult } from '../../../shared/gen/http.ts';
import {
  faultsInFile,
  type ImportFile,
  type ImportFormat,
  type ImportItem,
  type ImportTarget,
  type LineFault,
  MAX_IMPORT_BYTES,
  readImport,
} from '../../data/import-file.ts';
import { recordColumns } from '../../data/schema.ts';
import { sizeText } from '../../format.ts';
import { localProblem, type Problem, ProblemError } from '../../problem.ts';
import { text } from '../../text.ts';
import { type Doing, useDoing } from '../loading.ts';
import { Dialog, Field, Form, ProblemBox, ReasonField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';

const say = text.importing;

/** Uploading over a slow network, and writing 100,000 records to a slow card, of which the box limits the latter to 2 minutes. */
const IMPORT_MS = 600_000;
/** Of the faults, at a time. */
const FAULTS_PAGE = 100;

export function ImportDialog(props: {
  dictionary: string;
  schema: unknown;
  onDone: (result: ImportResult) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { dictionary, schema } = props;
  const { file, problem, isReading, choose } = useImportFile(dictionary, schema);
  /** Of the box, for this file. */
  const [refused, setRefused] = useState<{ of: ImportFile; faults: readonly LineFault[] }>();
  const [reason, setReason] = useState('');
  const doing = useDoing();
  const faults = file === undefined ? [] : refused?.of === file ? refused.faults : file.faults;
  const isReady = file !== undefined && faults.length === 0 && file.lines.length > 0;
  const submit = (): void => {
    if (!isReady) return;
    void doing.run(async () => {
      try {
        const result = await api.send<ImportResult>('POST', '/api/v1/imports', {
          body: file.lines.join('\n'),
          type: 'application/x-ndjson',
          changeReason: reason,
          patienceMs: IMPORT_MS,
        });
        if (result !== undefined) props.onDone(result);
      } catch (error) {
        if (!(error instanceof ProblemError)) throw error;
        const { reasons, ...rest } = error.problem;
        if (reasons.length > 0) setRefused({ of: file, faults: faultsInFile(reasons, file) });
        throw new ProblemError({ ...rest, reasons: [] });
      }
    });
  };
  return (
    <Dialog title={say.title(dictionary)} typed={reason !== ''} onClose={props.onClose}>
      <Form
        doing={ready(doing, isReady)}
        action={say.import}
        acting={doing.busy ? say.importing : say.import}
        onSubmit={submit}
      >
        <p>{say.about}</p>
        <Field label={say.file} hint={say.fileHint(sizeText(MAX_IMPORT_BYTES))}>
          {(attributes) => (
            <input
              {...attributes}
              type="file"
              accept=".csv,.ndjson,.jsonl,.txt,text/csv"
              // The same file again, once it is repaired.
              onClick={(event) => (event.currentTarget.value = '')}
              onChange={(event) => choose(event.currentTarget.files?.[0])}
            />
          )}
        </Field>
        <ProblemBox problem={problem} />
        <div role="status">
          {isReading && say.reading}
          {file !== undefined && <p>{summaryOf(file, faults)}</p>}
        </div>
        {faults.length > 0 && <Faults key={faults.length} of={faults} />}
        {file !== undefined && <First of={file.first} schema={schema} />}
        <ReasonField hint={text.data.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

/** Import is not offered before a file without faults was read. */
const ready = (doing: Doing, isReady: boolean): Doing => ({ ...doing, busy: doing.busy || !isReady });

function summaryOf({ lines, upserts, closes }: ImportFile, faults: readonly LineFault[]): string {
  if (faults.length > 0) return say.faults(faults.length);
  return lines.length === 0 ? say.empty : say.summary(lines.length, upserts, closes);
}

function useImportFile(dictionary: string, schema: unknown) {
  const [file, setFile] = useState<ImportFile>();
  const [problem, setProblem] = useState<Problem>();
  const [isReading, setReading] = useState(false);
  /** A file that is chosen while another is read replaces it. */
  const newest = useRef<File | undefined>(undefined);
  const choose = async (chosen: File | undefined): Promise<void> => {
    newest.current = chosen;
    setFile(undefined);
    setProblem(undefined);
    setReading(chosen !== undefined);
    if (chosen === undefined) return;
    const isNewest = (): boolean => newest.current === chosen;
    try {
      const read = await fileOf(chosen, { dictionary, schema }, isNewest);
      if (isNewest()) setFile(read);
    } catch (error) {
      if (isNewest()) setProblem(error instanceof ProblemError ? error.problem : localProblem(say.unreadable, ''));
    } finally {
      if (isNewest()) setReading(false);
    }
  };
  return { file, problem, isReading, choose: (chosen: File | undefined) => void choose(chosen) };
}

async function fileOf(
  chosen: File,
  target: Omit<ImportTarget, 'format'>,
  isWanted: () => boolean,
): Promise<ImportFile | undefined> {
  if (chosen.size > MAX_IMPORT_BYTES)
    throw new ProblemError(localProblem(say.tooLarge(sizeText(chosen.size), sizeText(MAX_IMPORT_BYTES)), ''));
  const bytes = await chosen.arrayBuffer();
  const source = decoded(bytes);
  const steps = readImport(source, { ...target, format: formatOf(source) });
  while (isWanted()) {
    const { done, value } = steps.next();
    if (done) return value;
    await new Promise((resolve) => setTimeout(resolve));
  }
  return undefined;
}

function decoded(bytes: ArrayBuffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ProblemError(localProblem(say.notUtf8, ''));
  }
}

/** No name of a column begins with a brace. */
const formatOf = (source: string): ImportFormat => (/^\s*\{/.test(source) ? 'ndjson' : 'csv');

function Faults({ of }: { of: readonly LineFault[] }): JSX.Element {
  const [shown, setShown] = useState(FAULTS_PAGE);
  const items = of.slice(0, shown).map((one, at) => ({ ...one, id: String(at) }));
  return (
    <Table
      of={{ items, hasMore: shown < of.length, problem: undefined, more: () => setShown(shown + FAULTS_PAGE) }}
      caption={say.faultsTitle}
      columns={faultColumns}
      idOf={({ id }) => id}
      none={say.noFault}
    />
  );
}

const faultColumns: readonly Column<LineFault>[] = [
  { head: say.line, isName: true, cell: ({ line }) => (line === 0 ? say.wholeFile : `${say.line} ${line}`) },
  { head: say.fault, cell: ({ fault }) => fault },
];

function First({ of, schema }: { of: readonly ImportItem[]; schema: unknown }): JSX.Element {
  const columns = useMemo(() => firstColumns(schema), [schema]);
  return (
    <>
      <h3>{say.first}</h3>
      <Table
        of={{ items: of, hasMore: false, problem: undefined, more: () => {} }}
        caption={say.first}
        columns={columns}
        idOf={({ line }) => String(line)}
        none={say.noFirst}
      />
    </>
  );
}

function firstColumns(schema: unknown): readonly Column<ImportItem>[] {
  const own: readonly Column<ImportItem>[] = [
    { head: text.data.businessKey, isName: true, cell: ({ businessKey }) => businessKey },
    { head: say.line, isNumber: true, cell: ({ line }) => line },
    { head: say.action, cell: ({ action }) => say.actions[action] },
    { head: text.data.validity, cell: ({ validFrom }) => validFrom },
  ];
  const fields = recordColumns(
    schema,
    own.map(({ head }) => head),
  ).map(({ head, isNumber, cell }) => ({
    head,
    ...(isNumber && { isNumber: true as const }),
    cell: ({ data }: ImportItem) => (data === '' ? '' : cell(JSON.parse(data))),
  }));
  const whole: Column<ImportItem> = {
    head: text.data.dataColumn,
    cell: ({ data }) => <span class="mono">{data}</span>,
  };
  return [...own, ...(fields.length > 0 ? fields : [whole])];
}
