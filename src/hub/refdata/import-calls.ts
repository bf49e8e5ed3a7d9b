/** What passes between the import (import.ts) and its worker (import-worker.ts). */
import type { ErrorCode } from '../../shared/base/errors.ts';
import type { Author } from '../outbox/event.ts';
import type { Actor, BundleFormat, ImportResult } from './face.ts';

export interface ImportRequest {
  /** Of refdata.db. */
  readonly path: string;
  /** Bytes refdata.db may hold. */
  readonly maxBytes: number;
  readonly actor: Actor;
  readonly author: Author;
  readonly format: BundleFormat;
  /** The wall clock of the process. */
  readonly wallMs: number;
}

/** Refusals are answers: an error that crosses threads would lose its reasons. */
export type ImportAnswer =
  | { readonly result: ImportResult }
  | {
      readonly refused: {
        readonly code: ErrorCode;
        readonly message: string;
        readonly hint: string;
        readonly reasons: readonly string[];
      };
    };

export interface ImportCalls {
  /** The next block of the bundle; it is handed over. */
  block: { request: ArrayBuffer; response: number };
  /** After the last block, while the write slot is held: one transaction. */
  run: { request: ImportRequest; response: ImportAnswer };
}

export const importAudit = 'records.imported';
