/** Requests to the reference data and their results. */
import type { Dictionary, Draft, ImportResult, Record as RecordVersion } from '../../shared/gen/http.ts';
import type { JsonObject, Scope } from '../outbox/event.ts';

export type { Dictionary, Draft, ImportResult, RecordVersion };

/** No control character (Unicode's Cc). Titles and business keys. */
export const PLAIN_TEXT = '^[^\\x00-\\x1f\\x7f-\\x9f]*$';

/** The caller. The HTTP interface checks what a role may do; the scopes are checked here. */
export interface Actor {
  readonly name: string;
  readonly scopes: readonly Scope[];
}

/**
 * When a version of a record holds. Versions overlay each other: at a time, the record is its newest version that is valid
 * from then or before, if that version is still valid at the time.
 */
export type Validity = Pick<RecordVersion, 'validFrom' | 'validTo'>;

export type DictionaryPatch = Partial<Pick<Dictionary, 'title' | 'scope' | 'schema'>>;

export type NewDictionary = Pick<Dictionary, 'name' | 'title' | 'scope'> & Pick<DictionaryPatch, 'schema'>;

export interface DictionaryUpdate extends DictionaryPatch {
  /** Required if the scope widens. */
  readonly confirmWidening?: boolean;
}

export type DraftState = Draft['state'];

export type DraftStep = 'request-review' | 'decide' | 'publish' | 'withdraw';

export interface RecordChange {
  readonly data: JsonObject;
  /** RFC 3339 with offset; default: the transaction's time. */
  readonly validFrom?: string;
  readonly changeReason?: string;
}

export type BundleFormat = 'ndjson' | 'json';

// Commands to the line that were saved under a name.

export const MAX_COMMANDS = 100;
/** Of what is typed, in UTF-8: a hundred commands are 100 KiB, a small part of the database. */
export const MAX_COMMAND_BYTES = 1_024;
export const MAX_NAME_CHARS = 64;
export const commandFormats = ['text', 'hex'] as const;
export const lineEndings = ['none', 'lf', 'cr', 'crlf'] as const;

export interface LineCommand {
  readonly name: string;
  readonly format: (typeof commandFormats)[number];
  /** As it is typed: text with escapes, or hex digits. */
  readonly data: string;
  readonly lineEnding: (typeof lineEndings)[number];
}

export interface LineCommandList {
  readonly version: number;
  readonly items: readonly LineCommand[];
}
