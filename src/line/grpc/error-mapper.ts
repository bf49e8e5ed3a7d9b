/** How a failure appears to a client: as a gRPC status, or inside a response of the contract. */
import { type Metadata, ServerError, Status } from 'nice-grpc';
import { asLinesideError, CODE_TRAILER, errorCatalogue, type LinesideError } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { serial } from '../../shared/proto/services.ts';
import { MAX_DETAILS_CHARS } from './limits.ts';

interface ContractAnswer {
  readonly status: serial.StatusCode;
  readonly error: string;
}

const OK: ContractAnswer = { status: serial.StatusCode.OK, error: '' };

/** What a client may read of it: of an unforeseen failure, nothing. */
function textOf(error: LinesideError): string {
  if (error.code === 'INTERNAL') return 'internal failure; the service has logged it';
  const text = error.hint === '' ? error.message : `${error.message} (${error.hint})`;
  // encodeURI, which grpc-js runs on it, throws on half a surrogate pair.
  return text.slice(0, MAX_DETAILS_CHARS).toWellFormed();
}

export class ErrorMapper {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** What a method answers; a failure is thrown as a gRPC status. */
  async answer<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.asStatus(error);
    }
  }

  /** For the responses that carry a status of the contract; never rejects. The code goes into the trailers, where there are any. */
  async inContract(work: () => Promise<void>, trailer?: Metadata): Promise<ContractAnswer> {
    try {
      await work();
      return OK;
    } catch (thrown) {
      const error = this.#known(thrown);
      trailer?.set(CODE_TRAILER, error.code);
      return { status: serial.StatusCode[errorCatalogue[error.code].contract], error: textOf(error) };
    }
  }

  /** For everything else: what a stream throws. */
  asStatus(thrown: unknown): Error {
    if (thrown instanceof ServerError || isAbort(thrown)) return thrown;
    const error = this.#known(thrown);
    return new ServerError(Status[errorCatalogue[error.code].grpc], statusText(error));
  }

  #known(thrown: unknown): LinesideError {
    const error = asLinesideError(thrown);
    if (error.code === 'INTERNAL') {
      const cause = error.cause instanceof Error ? error.cause : error;
      this.#logger.error('a call failed unforeseen', { error: cause.stack ?? cause.message });
    }
    return error;
  }
}

/** Clients that look only at the text of FAILED_PRECONDITION find the contract's word first. */
function statusText(error: LinesideError): string {
  return error.code === 'NOT_CONNECTED' ? `NOT_CONNECTED: ${textOf(error)}` : textOf(error);
}

function isAbort(thrown: unknown): thrown is Error {
  return thrown instanceof Error && thrown.name === 'AbortError';
}
