/** The log worker: owns the only write connection of log.db. Runs as a worker thread. */
import { collectGarbage } from '../../shared/base/memory.ts';
import { serve } from '../../shared/storage/worker-serve.ts';
import type { LogGap } from './entry.ts';
import { LogDatabase } from './store/log-database.ts';
import { discardBegun, openStoreFile } from './store/open-file.ts';
import { logFileName } from './store/schema.ts';
import type { Opened, OpenRequest, StoreCalls } from './store-client.ts';

let store: LogDatabase | undefined;
/** Of the file that is open. */
let dir = '';
/** The loss of the file that was open before, until a new file has recorded it. */
let lost: LogGap | undefined;

function opened(): LogDatabase {
  if (store === undefined) throw new Error('the log is not open');
  return store;
}

function open(request: OpenRequest): Opened {
  dir = request.dir;
  lost = store?.lost(request.setAsideFor || `${logFileName} was removed while lineside was running`) ?? lost;
  const file = openStoreFile(request.dir, request.setAsideFor, () => {
    store?.abandon();
    store = undefined;
  });
  try {
    store = new LogDatabase(file.connection, request, lost);
  } catch (error) {
    file.connection.close();
    if (file.setAside !== '') discardBegun(request.dir);
    throw error;
  }
  const { setAside, unchecked } = file;
  const isNew = request.logId !== '' && store.logId !== request.logId;
  const setAsideReason = file.setAsideReason || (isNew ? (lost?.reason ?? '') : '');
  lost = undefined;
  return {
    ...store.sizes(),
    ...store.history(),
    logId: store.logId,
    nextId: store.nextId,
    setAside,
    setAsideReason,
    unchecked,
  };
}

/** The copy takes the place of the file between two calls: readers and commits use it from then on. */
function takeSmaller(uptimeMs: number): void {
  const before = opened().replaceBySmaller();
  if (before === undefined) return;
  store = undefined;
  const { connection } = openStoreFile(dir, '', () => {});
  const headId = Math.max(1, before.decidedId);
  store = new LogDatabase(connection, { ...before, dir, headId, setAsideFor: '', uptimeMs }, undefined);
}

serve<StoreCalls>(
  {
    open,
    append(request) {
      const sizes = opened().append(request);
      // After the answer: the caller of a commit does not wait for the checkpoint.
      setImmediate(() => store?.checkpointIfDue());
      return sizes;
    },
    read: (request) => opened().read(request),
    startOfLast: ({ entries, upTo }) => opened().startOfLast(entries, upTo),
    events: (request) => opened().events(request),
    prune(request) {
      const pruned = opened().prune(request);
      takeSmaller(request.uptimeMs);
      setImmediate(() => store?.checkpointIfDue());
      return pruned;
    },
    collectGarbage,
    close({ headId, uptimeMs }) {
      store?.close(headId, uptimeMs);
      store = undefined;
    },
  },
  { read: ({ batch }) => [batch.buffer] },
);
