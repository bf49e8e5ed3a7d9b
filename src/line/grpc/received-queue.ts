/** Received bytes, events of the line, and a batch of the log behind them, on their way to the client of one Session: in order and bounded. */
import { lineside } from '../../shared/proto/services.ts';
import { sessionResponse, u64 } from './encode.ts';
import { MAX_UNREAD_BYTES, RECEIVED_MESSAGE_BYTES } from './limits.ts';

/** What an event counts: far more than its message, so that events alone stay bounded too; and each of its line errors. */
const EVENT_BYTES = 256;
const ERROR_BYTES = 32;

type Event = lineside.v1.LineEvent.$Properties;

/** Of the log, encoded. */
interface Batch {
  readonly message: Buffer;
  readonly done: () => void;
}

type Piece = Uint8Array | Event | Batch;

export class ReceivedQueue {
  readonly #onChange: () => void;
  #pieces: Piece[] = [];
  #batch: Batch | undefined;
  #bytes = 0;
  #lostBytes = 0;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** Bytes that the client did not take in time; not 0: the last event says so, and nothing comes after it. */
  get lostBytes(): number {
    return this.#lostBytes;
  }

  /**
   * A batch of the log goes behind what waits, so that bytes are received before their entry comes, and no entry comes whose
   * bytes are lost. Resolves when it was taken, or at the end; undefined: nothing waits. One at a time.
   */
  behind(message: Buffer): Promise<void> | undefined {
    if (this.#pieces.length === 0 && this.#lostBytes === 0) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#batch = { message, done: resolve };
    if (this.#lostBytes === 0) this.#pieces.push(this.#batch);
    return promise;
  }

  end(): void {
    this.#batch?.done();
  }

  /** Leaves out the bytes that wait, and their errors. */
  purge(): void {
    this.#pieces = this.#pieces.filter(
      (piece) => !(piece instanceof Uint8Array) && ('message' in piece || !piece.lineErrors),
    );
    this.#bytes = this.#pieces.reduce((sum, piece) => sum + bytesOf(piece), 0);
  }

  /** The next message, encoded; undefined: there is none now. */
  take(): Buffer | undefined {
    const [first] = this.#pieces;
    if (first === undefined) return undefined;
    if (!(first instanceof Uint8Array)) {
      this.#pieces.shift();
      if ('message' in first) {
        first.done();
        return first.message;
      }
      this.#bytes -= bytesOf(first);
      return sessionResponse('event', lineside.v1.LineEvent.encode(first).finish());
    }
    const run: Uint8Array[] = [];
    let size = 0;
    for (const piece of this.#pieces) {
      if (!(piece instanceof Uint8Array) || (size > 0 && size + piece.length > RECEIVED_MESSAGE_BYTES)) break;
      run.push(piece);
      size += piece.length;
    }
    this.#pieces.splice(0, run.length);
    this.#bytes -= size;
    return sessionResponse('received', run.length === 1 ? first : Buffer.concat(run, size));
  }

  /** Received bytes, or an event. */
  add(piece: Uint8Array | Event): void {
    if (this.#lostBytes > 0) return;
    const bytes = bytesOf(piece);
    if (this.#bytes + bytes > MAX_UNREAD_BYTES) {
      const waiting = this.#pieces.reduce((sum, one) => sum + (one instanceof Uint8Array ? one.length : 0), 0);
      this.#lostBytes = waiting + (piece instanceof Uint8Array ? bytes : 0);
      this.#pieces = [{ lostBytes: u64(this.#lostBytes) }];
      this.#bytes = EVENT_BYTES;
    } else {
      this.#pieces.push(piece);
      this.#bytes += bytes;
    }
    this.#onChange();
  }
}

function bytesOf(piece: Piece): number {
  if (piece instanceof Uint8Array) return piece.length;
  // Its reader holds it until then anyway.
  if ('message' in piece) return 0;
  return EVENT_BYTES + (piece.lineErrors?.errors?.length ?? 0) * ERROR_BYTES;
}
