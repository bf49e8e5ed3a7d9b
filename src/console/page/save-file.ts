/** Files for the user: whole, or piece by piece. */

const REVOKE_AFTER_MS = 60_000;

export function saveBlob(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_AFTER_MS);
}

/** Where a file goes that comes piece by piece. */
export interface Sink {
  readonly name: string;
  readonly maxBytes: number;
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  keep(): Promise<void>;
  discard(): Promise<void>;
}

/** Held by the browser until the file is whole. Phones with 2 GB take it. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;
/** Parts that are joined, so that the browser can move them out of its memory. */
const JOINED_BYTES = 4 * 1024 * 1024;

/** Of Chromium, over HTTPS or on the box itself. */
type PickFile = (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;

export async function openSink(name: string): Promise<Sink> {
  const pick = (window as { showSaveFilePicker?: PickFile }).showSaveFilePicker;
  if (pick === undefined) return heldSink(name);
  const handle = await pick.call(window, { suggestedName: name });
  const file = await handle.createWritable();
  return {
    name: handle.name,
    maxBytes: Number.POSITIVE_INFINITY,
    write: (bytes) => file.write(bytes),
    keep: () => file.close(),
    discard: () => file.abort(),
  };
}

/** The user has cancelled the browser's dialog, or the request. */
export function isCancel(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

function heldSink(name: string): Sink {
  let held = new Blob();
  let parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  const join = (): void => {
    held = new Blob([held, ...parts]);
    [parts, bytes] = [[], 0];
  };
  return {
    name,
    maxBytes: MAX_HELD_BYTES,
    async write(part) {
      parts.push(part);
      bytes += part.length;
      if (bytes >= JOINED_BYTES) join();
    },
    async keep() {
      join();
      saveBlob(held, name);
    },
    async discard() {
      [held, parts] = [new Blob(), []];
    },
  };
}
