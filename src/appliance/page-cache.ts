/**
 * Has the kernel forget the pages it keeps of a file or a block device, so that the next read comes from the medium.
 * POSIX_FADV_DONTNEED drops clean pages only: whoever wrote syncs first. (O_DIRECT would do it too, but wants memory aligned
 * to the device's sectors, which Node does not promise of a buffer.)
 */
import koffi from 'koffi';
import { SystemCallError } from '../shared/base/system-call.ts';

/** include/uapi/linux/fadvise.h; the same on x64 and arm64. */
const POSIX_FADV_DONTNEED = 4;

type Advise = (fd: number, offset: number, bytes: number, advice: number) => number;
let advise: Advise | undefined;

/** All of it, or `bytes` from `offset` on (0 bytes: to the end). Throws SystemCallError. */
export function dropPages(fd: number, offset = 0, bytes = 0): void {
  advise ??= library();
  // It returns the error's number and leaves errno alone.
  const error = advise(fd, offset, bytes, POSIX_FADV_DONTNEED);
  if (error !== 0) throw new SystemCallError('posix_fadvise', error);
}

function library(): Advise {
  const func: Advise = koffi.load(null).func('posix_fadvise', 'int', ['int', 'int64_t', 'int64_t', 'int']);
  return func;
}
