/** A system call that was made through koffi and failed. */
import { getSystemErrorName } from 'node:util';

/** `code` is the error's name ("EIO"), as on Node's own errors. */
export class SystemCallError extends Error {
  override readonly name = 'SystemCallError';
  readonly code: string;

  constructor(call: string, errno: number) {
    const code = getSystemErrorName(-errno);
    super(`${call}: ${code}`);
    this.code = code;
  }
}
