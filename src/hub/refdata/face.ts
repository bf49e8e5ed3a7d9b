/**
 * The reference data as the HTTP interface, the device's own facts and the tests use it. Every write resolves when it is
 * committed, together with its outbox row. Errors are LinesideErrors: INVALID_ARGUMENT with every reason at once,
 * NOT_FOUND, CONFLICT, STALE_VERSION, VERSION_REQUIRED, PERMISSION_DENIED (a scope the actor may not see), and those of
 * ChangeStore.commit.
 */
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Action, JsonObject, Scope } from '../outbox/event.ts';
import type { Page, PageRequest } from '../outbox/face.ts';

/** No control character (Unicode's Cc). Titles and business keys. */
export const PLAIN_TEXT = '^[^\\x00-\\x1f\\x7f-\\x9f]*$';
export const CHANGE_REASON = '^[^\\x00]*$';
/** A cursor is base64url, or a number. */
export const CURSOR = '^[A-Za-z0-9_-]*$';
/** Characters of a cursor: those of a business key of 256 characters in base64url, and room. */
export const MAX_CURSOR_CHARS = 4_096;

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

export interface Refdata {
  /** CONFLICT: there is one of that name. */
  createDictionary(actor: Actor, wanted: NewDictionary, changeReason: string): Promise<Dictionary>;
  dictionaries(actor: Actor, page: PageRequest): Page<Dictionary>;
  dictionary(actor: Actor, name: string): Dictionary;
  /** `version`: what If-Match named, where it was given. CONFLICT: the scope would widen, and that is not confirmed. */
  updateDictionary(
    actor: Actor,
    name: string,
    patch: DictionaryUpdate,
    changeReason: string,
    version: ExpectedVersion | undefined,
  ): Promise<Dictionary>;

  createDraft(actor: Actor, dictionary: string, schema: JsonObject, changeReason: string): Promise<Draft>;
  drafts(actor: Actor, dictionary: string, page: PageRequest): Page<Draft>;
  draft(actor: Actor, dictionary: string, id: number): Draft;
  /** CONFLICT: not from the state it is in. `decision` with 'decide' only. */
  stepDraft(
    actor: Actor,
    dictionary: string,
    id: number,
    step: DraftStep,
    decision: 'approved' | 'rejected' | undefined,
    changeReason: string,
  ): Promise<Draft>;

  /** A business key that was closed is opened again, its versions counted on. CONFLICT: it is open. */
  createRecord(actor: Actor, dictionary: string, businessKey: string, change: RecordChange): Promise<RecordVersion>;
  /** `version`: what If-Match named; undefined: VERSION_REQUIRED. CONFLICT: the record is closed. */
  updateRecord(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    change: RecordChange,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion>;
  closeRecord(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    changeReason: string,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion>;
  /** As of `at` (RFC 3339; undefined: now). NOT_FOUND, with a hint where it is known but not valid then. */
  record(actor: Actor, dictionary: string, businessKey: string, at: string | undefined): RecordVersion;
  /** Records valid at `at`, by business key. */
  records(actor: Actor, dictionary: string, at: string | undefined, page: PageRequest): Page<RecordVersion>;
  /** All versions, newest first. */
  history(actor: Actor, dictionary: string, businessKey: string, page: PageRequest): Page<RecordVersion>;
  /** All or nothing; every fault in `reasons`. Answers how many were closed and the transaction's time. */
  bulkClose(
    actor: Actor,
    dictionary: string,
    businessKeys: readonly string[],
    changeReason: string,
  ): Promise<{ readonly txTime: Instant; readonly closed: number }>;
  /**
   * One transaction, all or nothing, off this thread; every fault in `reasons`, each with its line (or item) number.
   * `body` is read as it comes, and ended early when it is too large (TOO_LARGE). One import at a time; a few wait.
   */
  importBundle(
    actor: Actor,
    format: BundleFormat,
    changeReason: string,
    body: AsyncIterable<Uint8Array>,
  ): Promise<ImportResult>;
  close(): Promise<void>;
}
