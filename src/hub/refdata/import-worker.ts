/** The import worker: holds one bundle and writes it in one transaction. Started for an import, ended after it. */
import { systemClock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { serve, toldToStop } from '../../shared/storage/worker-serve.ts';
import { ImportConnection } from '../outbox/import-connection.ts';
import type { ImportAnswer, ImportCalls, ImportRequest } from './import-calls.ts';
import { ImportRun } from './import-run.ts';

/** What a transaction has written stays in the cache or spills into the write-ahead log. */
const cacheKib = 16 * 1024;

const blocks: Uint8Array[] = [];

/** Each block is let go when it has been read. Nothing is written when the import was stopped meanwhile. */
function* drained(): Generator<Uint8Array> {
  for (let block = blocks.shift(); block !== undefined; block = blocks.shift()) {
    yield block;
    if (toldToStop()) throw new LinesideError('SHUTTING_DOWN', 'nothing was imported: it was told to stop');
  }
}

function run({ path, maxBytes, wallMs, actor, author, format }: ImportRequest): ImportAnswer {
  try {
    const clock = { ...systemClock, wallMs: () => wallMs };
    const connection = new ImportConnection({ path, maxBytes, cacheKib, clock });
    try {
      return { result: connection.change(author, (change) => new ImportRun(change, actor).run(format, drained())) };
    } finally {
      connection.close();
    }
  } catch (error) {
    if (!(error instanceof LinesideError)) throw error;
    const { code, message, hint, reasons } = error;
    return { refused: { code, message, hint, reasons } };
  }
}

serve<ImportCalls>({
  block(buffer) {
    return { value: blocks.push(new Uint8Array(buffer)) };
  },
  run: (request) => ({ value: run(request) }),
});
