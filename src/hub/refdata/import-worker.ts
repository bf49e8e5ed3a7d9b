/** The worker of one import: holds the bundle and writes it in one transaction. */
import { systemClock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { isStopRequested, serve } from '../../shared/storage/worker-serve.ts';
import { ImportConnection } from '../outbox/refdata-file.ts';
import { type ImportCalls, type ImportRequest, ImportRun } from './bundle.ts';
import type { ImportResult } from './face.ts';
import { dataChecks, unlimited } from './json-schema.ts';

/** Grows in place, so that a bundle is in memory once. */
let bundle = new ArrayBuffer(0);

/** Returns the bytes so far. */
function append(part: ArrayBuffer, maxBytes: number): number {
  if (!bundle.resizable) bundle = new ArrayBuffer(0, { maxByteLength: maxBytes });
  const end = bundle.byteLength;
  bundle.resize(end + part.byteLength);
  new Uint8Array(bundle, end).set(new Uint8Array(part));
  return bundle.byteLength;
}

function throwIfStopped(): void {
  if (isStopRequested()) throw new LinesideError('SHUTTING_DOWN', 'nothing was imported: the service is being stopped');
}

function run({ path, maxBytes, wallMs, actor, author, format }: ImportRequest): ImportResult {
  const clock = { ...systemClock, wallMs: () => wallMs };
  const connection = new ImportConnection(path, maxBytes, clock);
  try {
    return connection.change(author, (change) =>
      new ImportRun(change, actor, dataChecks(change.connection, unlimited), throwIfStopped).run(
        format,
        new Uint8Array(bundle),
      ),
    );
  } finally {
    connection.close();
  }
}

serve<ImportCalls>({ append: ({ part, maxBytes }) => append(part, maxBytes), run });
