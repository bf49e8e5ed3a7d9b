/** The log worker as the thread of the line reaches it; started at open, and again when it has died. */
import { besideModule, WorkerHost } from '../../shared/storage/worker-host.ts';
import { WorkerError } from '../../shared/storage/worker-messages.ts';
import type {
  Appended,
  AppendRequest,
  Opened,
  OpenRequest,
  Page,
  Pruned,
  PruneRequest,
  ReadPageRequest,
  RemoteStore,
  StoreCalls,
} from './store-face.ts';

/** A close commits a row and checkpoints at most a few MiB; a disk that takes longer hangs. */
const closeMs = 3_000;
const terminateMs = 500;

export class StoreClient implements RemoteStore {
  #host: WorkerHost<StoreCalls> | undefined;

  open(request: OpenRequest): Promise<Opened> {
    if (this.#host?.alive !== true) {
      this.#host = new WorkerHost<StoreCalls>(besideModule('log-worker', import.meta.url));
    }
    return this.#host.call('open', request);
  }

  append(request: AppendRequest): Promise<Appended> {
    return this.#use((host) => host.call('append', request, [request.batch.buffer]));
  }

  read(request: ReadPageRequest): Promise<Page> {
    return this.#use((host) => host.call('read', request));
  }

  startOfLast(entries: number, upTo: number): Promise<number> {
    return this.#use((host) => host.call('startOfLast', { entries, upTo }));
  }

  prune(request: PruneRequest): Promise<Pruned> {
    return this.#use((host) => host.call('prune', request));
  }

  /** A round trip to the thread: behind what it is at. */
  answers(): Promise<void> {
    return this.#use((host) => host.answers());
  }

  async close(headId: number, uptimeMs: number): Promise<void> {
    const host = this.#host;
    if (host === undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`the log did not close within ${closeMs} ms`)), closeMs);
    });
    try {
      await Promise.race([host.call('close', { headId, uptimeMs }), limit]);
    } finally {
      clearTimeout(timer);
      await host.terminate(terminateMs);
    }
  }

  #use<T>(call: (host: WorkerHost<StoreCalls>) => Promise<T>): Promise<T> {
    if (this.#host !== undefined) return call(this.#host);
    return Promise.reject(new WorkerError({ message: 'the log is not open', code: 'WORKER_EXITED', hint: '' }));
  }
}
