/** Older rows of the log, a page at a time when they are asked for. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { olderRows } from '../older.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from '../problem.ts';
import type { Row, RowBuffer } from '../rows.ts';
import { LineSplitter, messageOf } from '../stream.ts';
import type { Api } from './api.ts';

/** When nothing more of a page comes for so long, it is given up. */
const PATIENCE_MS = 20_000;

export interface Older {
  readonly busy: boolean;
  readonly problem: Problem | undefined;
  /** The first entry that there is; 0: it was not come to. */
  readonly startId: number;
  readonly load: (buffer: RowBuffer, firstStored: number) => void;
  /** What is on its way belongs before the rows that were there when it was asked for, and is not put before others. */
  readonly leave: () => void;
  /** The rows are of another log, or of another place in it. */
  readonly forget: () => void;
}

const idle = { busy: false, problem: undefined } as const;

export function useOlder(api: Api): Older {
  const [state, setState] = useState<Pick<Older, 'busy' | 'problem'>>(idle);
  const [startId, setStartId] = useState(0);
  const loading = useRef<AbortController>(undefined);
  const leave = (): void => {
    loading.current?.abort();
    setState(idle);
  };
  useEffect(() => () => loading.current?.abort(), []);
  return {
    ...state,
    startId,
    load(buffer, firstStored) {
      loading.current?.abort();
      const own = new AbortController();
      loading.current = own;
      setState({ busy: true, problem: undefined });
      const { firstId } = buffer;
      olderRows({ read: pagesOf(api, own.signal) }, firstId, firstStored).then(
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
    leave,
    forget() {
      leave();
      setStartId(0);
    },
  };
}

/** Pages of the log, row by row as they come: a page of large entries is not held whole. */
function pagesOf(api: Api, signal: AbortSignal) {
  return async (after: number, limit: number, take: (rows: readonly Row[]) => void): Promise<void> => {
    const silent = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), PATIENCE_MS);
    };
    heard();
    try {
      const query = `after=${after}&limit=${limit}&follow=false`;
      const splitter = new LineSplitter();
      for await (const text of await api.stream(
        `/api/v1/line/log?${query}`,
        AbortSignal.any([signal, silent.signal]),
      )) {
        heard();
        for (const line of splitter.push(text)) takeLine(line, take);
      }
    } finally {
      clearTimeout(timer);
    }
  };
}

function takeLine(line: string, take: (rows: readonly Row[]) => void): void {
  const message = messageOf(line);
  if (message?.type === 'row') take([message.row]);
  // A page that ends with a reason is not whole.
  if (message?.type === 'end') throw new ProblemError(localProblem('The log was cut off', message.message));
}
