/** How a failure appears to a client: as a gRPC status, or inside a response of the contract. */
import { type Metadata, ServerError, Status } from 'nice-grpc';
import { failureOf } from '../../shared/auth/gated-call.ts';
import { CODE_TRAILER, errorCatalogue } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { serial } from '../../shared/proto/services.ts';

interface ContractAnswer {
  readonly status: serial.StatusCode;
  readonly error: string;
}

const OK: ContractAnswer = { status: serial.StatusCode.OK, error: '' };

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
      const { error, details } = failureOf(thrown, this.#logger, 'service');
      trailer?.set(CODE_TRAILER, error.code);
      return { status: serial.StatusCode[errorCatalogue[error.code].contract], error: details };
    }
  }

  /** For everything else: what a stream throws. */
  asStatus(thrown: unknown): Error {
    if (thrown instanceof ServerError || (thrown instanceof Error && thrown.name === 'AbortError')) return thrown;
    const { error, details } = failureOf(thrown, this.#logger, 'service');
    // Clients that check only the text of FAILED_PRECONDITION find the contract's word first.
    const text = error.code === 'NOT_CONNECTED' ? `NOT_CONNECTED: ${details}` : details;
    return new ServerError(Status[errorCatalogue[error.code].grpc], text);
  }
}
