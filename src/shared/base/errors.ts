/**
 * Every failure that leaves a room is a LinesideError with a code of this table. Callers decide by the fields,
 * never by the text. The table also says how a code appears at the faces: inside a response of the contract of the line
 * (`contract`, a serial.StatusCode), as a gRPC status (`grpc`), and as the status of the HTTP interface (`http`). Pure.
 */
export const errorCatalogue = {
  INVALID_ARGUMENT: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 422, retryable: false },
  /** A combination of settings that the driver or the platform cannot do, or silently did not take. */
  SETTING_REFUSED: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 422, retryable: false },
  PORT_NOT_FOUND: { contract: 'NOT_FOUND', grpc: 'NOT_FOUND', http: 404, retryable: true },
  PORT_BUSY: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 409, retryable: true },
  PORT_PERMISSION: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', http: 409, retryable: false },
  PORT_IO: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', http: 503, retryable: true },
  NOT_CONNECTED: { contract: 'NOT_CONNECTED', grpc: 'FAILED_PRECONDITION', http: 409, retryable: true },
  QUEUE_FULL: { contract: 'INTERNAL_ERROR', grpc: 'RESOURCE_EXHAUSTED', http: 503, retryable: true },
  WRITE_TIMEOUT: { contract: 'INTERNAL_ERROR', grpc: 'DEADLINE_EXCEEDED', http: 504, retryable: true },
  /** The caller cancelled or disconnected, or the port was closed or reopened, before the packet reached the port. */
  NOT_SENT: { contract: 'INTERNAL_ERROR', grpc: 'ABORTED', http: 503, retryable: true },
  BUFFER_EMPTY: { contract: 'NOT_FOUND', grpc: 'NOT_FOUND', http: 404, retryable: true },
  /** The port (or this platform) has no such thing as modem lines or break. */
  UNSUPPORTED: { contract: 'INVALID_ARGUMENT', grpc: 'UNIMPLEMENTED', http: 501, retryable: false },
  /** The log could not store the entry; it is not stored. */
  LOG_NOT_STORED: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 503, retryable: true },
  /** Entries that a reader was still to get are gone. */
  LOG_LOST: { contract: 'INTERNAL_ERROR', grpc: 'DATA_LOSS', http: 410, retryable: true },
  /** The log asked for is not this log: it was replaced. */
  LOG_REPLACED: { contract: 'NOT_FOUND', grpc: 'OUT_OF_RANGE', http: 404, retryable: false },
  TOO_MANY: { contract: 'INTERNAL_ERROR', grpc: 'RESOURCE_EXHAUSTED', http: 429, retryable: true },
  UNAUTHENTICATED: { contract: 'INTERNAL_ERROR', grpc: 'UNAUTHENTICATED', http: 401, retryable: false },
  PERMISSION_DENIED: { contract: 'INTERNAL_ERROR', grpc: 'PERMISSION_DENIED', http: 403, retryable: false },
  SHUTTING_DOWN: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 503, retryable: true },
  CONFIG_INVALID: { contract: 'INTERNAL_ERROR', grpc: 'FAILED_PRECONDITION', http: 500, retryable: false },
  /** The body or an argument could not even be read: not JSON, not the announced type. */
  MALFORMED: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 400, retryable: false },
  NOT_FOUND: { contract: 'NOT_FOUND', grpc: 'NOT_FOUND', http: 404, retryable: false },
  /** There already, or not in a state from which this step leads on. */
  CONFLICT: { contract: 'INTERNAL_ERROR', grpc: 'FAILED_PRECONDITION', http: 409, retryable: false },
  /** If-Match names another version than the record has now. */
  STALE_VERSION: { contract: 'INTERNAL_ERROR', grpc: 'ABORTED', http: 412, retryable: false },
  VERSION_REQUIRED: { contract: 'INTERNAL_ERROR', grpc: 'FAILED_PRECONDITION', http: 428, retryable: false },
  TOO_LARGE: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 413, retryable: false },
  UNSUPPORTED_MEDIA: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 415, retryable: false },
  /** The disk or the budget of refdata.db is full: nothing was written. */
  STORAGE_FULL: { contract: 'INTERNAL_ERROR', grpc: 'RESOURCE_EXHAUSTED', http: 507, retryable: true },
  /** refdata.db could not be written or read for a moment (I/O error, locked by another process): nothing was written. */
  STORAGE_FAILED: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 503, retryable: true },
  /** refdata.db is damaged. */
  STORAGE_DAMAGED: { contract: 'INTERNAL_ERROR', grpc: 'DATA_LOSS', http: 500, retryable: false },
  /** The service cannot do its work, or not this yet; of /readyz the reasons begin with the code of what is in its way. */
  NOT_READY: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 503, retryable: true },
  /** refdata.db is migrated when the update is kept: until then nothing is read or written. */
  UPDATE_ON_TRIAL: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', http: 503, retryable: true },
  METHOD_NOT_ALLOWED: { contract: 'INVALID_ARGUMENT', grpc: 'UNIMPLEMENTED', http: 405, retryable: false },
  /** The request did not arrive whole in time. */
  REQUEST_TIMEOUT: { contract: 'INTERNAL_ERROR', grpc: 'DEADLINE_EXCEEDED', http: 408, retryable: true },
  HEADERS_TOO_LARGE: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', http: 431, retryable: false },
  INTERNAL: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', http: 500, retryable: false },
} as const satisfies Record<string, { contract: string; grpc: string; http: number; retryable: boolean }>;

/** In the trailers of an answer whose status is one of the contract's: the code, which says more than it. */
export const CODE_TRAILER = 'lineside-code';

export type ErrorCode = keyof typeof errorCatalogue;

export interface ErrorDetails {
  /** The error underneath. */
  readonly cause?: unknown;
  /** The next step for the reader. */
  readonly hint?: string;
  /** Every single fault, where there may be several. */
  readonly reasons?: readonly string[];
}

export class LinesideError extends Error {
  override readonly name = 'LinesideError';
  readonly code: ErrorCode;
  readonly hint: string;
  readonly reasons: readonly string[];

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint ?? '';
    this.reasons = details.reasons ?? [];
  }

  get retryable(): boolean {
    return errorCatalogue[this.code].retryable;
  }
}

/** Any thrown value as a LinesideError: what was not foreseen becomes INTERNAL and keeps its cause. */
export function asLinesideError(thrown: unknown): LinesideError {
  if (thrown instanceof LinesideError) return thrown;
  return new LinesideError('INTERNAL', messageOf(thrown), { cause: thrown });
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a system error ("ENOENT"), or '' where there is none. */
export function systemCode(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return '';
  return typeof thrown.code === 'string' ? thrown.code : '';
}

/** Why a file could not be read, in words; other codes as the system writes them. */
const unreadableBecause: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'this user may not read it',
  EISDIR: 'it is a directory',
};

export function readFaultOf(thrown: unknown): string {
  return unreadableBecause[systemCode(thrown)] ?? messageOf(thrown);
}
