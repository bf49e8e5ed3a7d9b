/** What the line refused or failed at, as an error of the catalogue. */
import { ClientError, Status } from 'nice-grpc';
import { type ErrorCode, errorCatalogue, LinesideError, messageOf } from '../../shared/base/errors.ts';
import { serial } from '../../shared/proto/services.ts';

/** Of an answer with a status of the contract, which is too coarse to tell a port in use from one that failed. */
export function refusalOf(
  { status, error }: Pick<serial.ConfigResponse, 'status' | 'error'>,
  code: string | undefined,
): LinesideError | undefined {
  if (status === serial.StatusCode.OK) return undefined;
  return new LinesideError(known(code) ?? byContract(status), error);
}

/** Of a call that failed. */
export function failureOf(thrown: unknown, code: string | undefined): LinesideError {
  if (thrown instanceof LinesideError) return thrown;
  if (!(thrown instanceof ClientError)) return away(messageOf(thrown), thrown);
  const meant = known(code) ?? byStatus[thrown.code];
  if (meant === undefined) return away(thrown.details, thrown);
  return new LinesideError(meant, thrown.details, { cause: thrown });
}

export function away(why: string, cause?: unknown): LinesideError {
  return new LinesideError('NOT_READY', `the line does not answer: ${why}`, {
    cause,
    hint: 'is it running? see "lineside status" and the journal of lineside.service',
  });
}

function known(code: string | undefined): ErrorCode | undefined {
  return code !== undefined && Object.hasOwn(errorCatalogue, code) ? (code as ErrorCode) : undefined;
}

function byContract(status: serial.StatusCode): ErrorCode {
  switch (status) {
    case serial.StatusCode.INVALID_ARGUMENT:
      return 'INVALID_ARGUMENT';
    case serial.StatusCode.NOT_FOUND:
      return 'PORT_NOT_FOUND';
    case serial.StatusCode.NOT_CONNECTED:
      return 'NOT_CONNECTED';
    default:
      return 'PORT_IO';
  }
}

const byStatus: Readonly<Partial<Record<Status, ErrorCode>>> = {
  [Status.INVALID_ARGUMENT]: 'INVALID_ARGUMENT',
  [Status.RESOURCE_EXHAUSTED]: 'TOO_MANY',
  [Status.OUT_OF_RANGE]: 'LOG_REPLACED',
  [Status.DATA_LOSS]: 'LOG_LOST',
  [Status.FAILED_PRECONDITION]: 'NOT_CONNECTED',
};
