/**
 * Every failure that leaves a room is a LinesideError with a code of this table. Callers decide by the fields,
 * never by the text. The table also says how a code appears at the two faces of the line: inside a response of
 * the contract (`contract`, a serial.StatusCode) and as a gRPC status (`grpc`).
 */
export const errorCatalogue = {
  INVALID_ARGUMENT: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', retryable: false },
  /** A combination of settings that the driver or the platform cannot do, or silently did not take. */
  SETTING_REFUSED: { contract: 'INVALID_ARGUMENT', grpc: 'INVALID_ARGUMENT', retryable: false },
  PORT_NOT_FOUND: { contract: 'NOT_FOUND', grpc: 'NOT_FOUND', retryable: true },
  PORT_BUSY: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', retryable: true },
  PORT_PERMISSION: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', retryable: false },
  PORT_IO: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', retryable: true },
  NOT_CONNECTED: { contract: 'NOT_CONNECTED', grpc: 'FAILED_PRECONDITION', retryable: true },
  QUEUE_FULL: { contract: 'INTERNAL_ERROR', grpc: 'RESOURCE_EXHAUSTED', retryable: true },
  WRITE_TIMEOUT: { contract: 'INTERNAL_ERROR', grpc: 'DEADLINE_EXCEEDED', retryable: true },
  /** The caller went away, or the port was closed or reopened, before the packet reached the port. */
  NOT_SENT: { contract: 'INTERNAL_ERROR', grpc: 'ABORTED', retryable: true },
  BUFFER_EMPTY: { contract: 'NOT_FOUND', grpc: 'NOT_FOUND', retryable: true },
  /** The port (or this platform) has no such thing as modem lines or break. */
  UNSUPPORTED: { contract: 'INVALID_ARGUMENT', grpc: 'UNIMPLEMENTED', retryable: false },
  /** The log could not store the entry; it is not stored. */
  LOG_NOT_STORED: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', retryable: true },
  /** Entries that a reader was still to get are gone. */
  LOG_LOST: { contract: 'INTERNAL_ERROR', grpc: 'DATA_LOSS', retryable: true },
  /** The log asked for is not this log: it was replaced. */
  LOG_REPLACED: { contract: 'NOT_FOUND', grpc: 'OUT_OF_RANGE', retryable: false },
  TOO_MANY: { contract: 'INTERNAL_ERROR', grpc: 'RESOURCE_EXHAUSTED', retryable: true },
  UNAUTHENTICATED: { contract: 'INTERNAL_ERROR', grpc: 'UNAUTHENTICATED', retryable: false },
  PERMISSION_DENIED: { contract: 'INTERNAL_ERROR', grpc: 'PERMISSION_DENIED', retryable: false },
  SHUTTING_DOWN: { contract: 'INTERNAL_ERROR', grpc: 'UNAVAILABLE', retryable: true },
  CONFIG_INVALID: { contract: 'INTERNAL_ERROR', grpc: 'FAILED_PRECONDITION', retryable: false },
  INTERNAL: { contract: 'INTERNAL_ERROR', grpc: 'INTERNAL', retryable: false },
} as const satisfies Record<string, { contract: string; grpc: string; retryable: boolean }>;

export type ErrorCode = keyof typeof errorCatalogue;

export interface ErrorDetails {
  /** The error underneath. */
  readonly cause?: unknown;
  /** What the person who reads this can do next. */
  readonly hint?: string;
}

export class LinesideError extends Error {
  override readonly name = 'LinesideError';
  readonly code: ErrorCode;
  readonly hint: string;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint ?? '';
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
