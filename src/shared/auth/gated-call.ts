/**
 * A call of a grpc-js server that is admitted by its metadata, before a byte of its message is read. nice-grpc passes its
 * options on to grpc-js, `interceptors` among them.
 */
import { type Metadata, ServerInterceptingCall, type ServerInterceptingCallInterface, status } from '@grpc/grpc-js';
import { asLinesideError, errorCatalogue, LinesideError } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';

type Listener = Parameters<ServerInterceptingCallInterface['start']>[0];
/** Throws or rejects with a LinesideError if the call is refused. */
type Admit = (metadata: Metadata) => void | Promise<void>;

/** Error texts travel in HTTP/2 trailers, which clients bound (8 KiB by default in some); three bytes a character at worst. */
const MAX_DETAILS_CHARS = 1_000;

function detailsOf({ message, hint }: LinesideError): string {
  // encodeURI, which grpc-js runs on it, throws on half a surrogate pair.
  return (hint === '' ? message : `${message} (${hint})`).slice(0, MAX_DETAILS_CHARS).toWellFormed();
}

/** A failure of a call, with the text for its client: of an unforeseen one nothing, since `who` has it in its log. */
export function failureOf(thrown: unknown, logger: Logger, who: string): { error: LinesideError; details: string } {
  const error = asLinesideError(thrown);
  if (error.code !== 'INTERNAL') return { error, details: detailsOf(error) };
  const cause = error.cause instanceof Error ? error.cause : error;
  logger.error('a call failed unforeseen', { error: cause.stack ?? cause.message });
  return { error, details: `internal failure; the ${who} has logged it` };
}

/** Passes messages straight through: the class it extends would wrap each in closures. */
export class GatedCall extends ServerInterceptingCall {
  protected readonly call: ServerInterceptingCallInterface;
  readonly #admit: Admit;
  #listener: Listener | undefined;
  #isAdmitted = false;
  #isCancelled = false;
  /** Its status was sent, or its client has disconnected. */
  protected isOver = false;

  constructor(call: ServerInterceptingCallInterface, admit: Admit) {
    super(call);
    this.call = call;
    this.#admit = admit;
  }

  protected onAdmitted(): void {}

  protected onMessage(_message: unknown): void {}

  protected onEnd(): void {}

  override start(listener: Listener): void {
    this.#listener = listener;
    this.call.start({
      onReceiveMetadata: (metadata) => {
        try {
          const admission = this.#admit(metadata);
          if (admission === undefined) this.#pass(metadata);
          else
            admission.then(
              () => this.#pass(metadata),
              (error: unknown) => this.#isCancelled || this.refuse(error),
            );
        } catch (error) {
          this.refuse(error);
        }
      },
      // What comes after the call was ended here must not reach its method.
      onReceiveMessage: (message: unknown) => {
        this.onMessage(message);
        if (!this.#isCancelled) listener.onReceiveMessage(message);
      },
      onReceiveHalfClose: () => {
        if (!this.#isCancelled) listener.onReceiveHalfClose();
      },
      onCancel: () => this.cancel(),
    });
  }

  #pass(metadata: Metadata): void {
    if (this.#isCancelled) return;
    this.#isAdmitted = true;
    this.onAdmitted();
    this.#listener?.onReceiveMetadata(metadata);
  }

  /** Ends its method. */
  protected cancel(): void {
    this.#end();
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    // A call that was never handed on has nothing to cancel.
    if (this.#isAdmitted) this.#listener?.onCancel();
  }

  protected refuse(thrown: unknown): void {
    const error =
      thrown instanceof LinesideError
        ? thrown
        : new LinesideError('INTERNAL', 'the caller could not be authenticated', { cause: thrown });
    this.#end();
    this.call.sendStatus({ code: status[errorCatalogue[error.code].grpc], details: detailsOf(error) });
  }

  #end(): void {
    this.isOver = true;
    this.onEnd();
  }

  override sendMetadata(metadata: Metadata): void {
    if (!this.isOver) this.call.sendMetadata(metadata);
  }

  override sendMessage(message: unknown, callback: () => void): void {
    if (this.isOver) callback();
    else this.call.sendMessage(message, callback);
  }

  override sendStatus(outcome: Parameters<ServerInterceptingCallInterface['sendStatus']>[0]): void {
    if (this.isOver) return;
    this.#end();
    this.call.sendStatus(outcome);
  }

  override startRead(): void {
    this.call.startRead();
  }
}
