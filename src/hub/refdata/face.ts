/** What the HTTP interface, the device's own facts and the tests send to the reference data, and what they get. */
import type { Instant } from '../../shared/base/instant.ts';
import type { Action, JsonObject, Scope } from '../outbox/event.ts';

/** No control character (Unicode's Cc). Titles and business keys. */
export const PLAIN_TEXT = '^[^\\x00-\\x1f\\x7f-\\x9f]*$';
export const CHANGE_REASON = '^[^\\x00]*$';

/** Who asks. What a role may do at all is the HTTP interface's affair; which scopes are open to it is decided here. */
export interface Actor {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

export interface Dictionary {
  readonly name: string;
  readonly title: string;
  readonly scope: Scope;
  /** JSON Schema of `data`; null: any object. */
  readonly schema: JsonObject | null;
  readonly version: number;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  readonly changedBy: string;
}

export interface NewDictionary {
  readonly name: string;
  readonly title: string;
  readonly scope: Scope;
  readonly schema?: JsonObject | null;
}

export interface DictionaryPatch {
  readonly title?: string;
  readonly scope?: Scope;
  readonly schema?: JsonObject | null;
}

export interface DictionaryUpdate extends DictionaryPatch {
  /** Needed where the scope becomes a wider one. */
  readonly confirmWidening?: boolean;
}

export type DraftState = 'draft' | 'inReview' | 'approved' | 'rejected' | 'published' | 'withdrawn';

export interface Draft {
  readonly id: number;
  readonly dictionary: string;
  readonly state: DraftState;
  readonly schema: JsonObject;
  readonly changeReason: string;
  readonly createdBy: string;
  readonly createdAt: Instant;
  readonly updatedBy: string;
  readonly updatedAt: Instant;
}

export type DraftStep = 'request-review' | 'decide' | 'publish' | 'withdraw';

/** One version of a record. */
export interface RecordVersion {
  readonly dictionary: string;
  readonly businessKey: string;
  readonly version: number;
  readonly action: Action;
  readonly data: JsonObject;
  readonly validFrom: Instant;
  /** FAR_FUTURE while the record is open. */
  readonly validTo: Instant;
  readonly txTime: Instant;
  readonly changedBy: string;
  readonly changeReason: string;
}

export interface RecordChange {
  readonly data: JsonObject;
  /** RFC 3339 with offset; default: the transaction's time. */
  readonly validFrom?: string;
  readonly changeReason?: string;
}

export interface ImportResult {
  readonly txTime: Instant;
  readonly created: number;
  readonly updated: number;
  readonly closed: number;
  /** Upserts of what is so already: nothing was written for them. */
  readonly unchanged: number;
}

export type BundleFormat = 'ndjson' | 'json';
