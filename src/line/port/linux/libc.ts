/**
 * The C library through koffi: the few system calls that Node has no name for. Loading it takes about 12 ms, so
 * only files that are themselves loaded at the first Open (or for the simulated line) import it.
 */
import { constants } from 'node:os';
import koffi from 'koffi';
import { SystemCallError } from '../../../shared/base/system-call.ts';

const library = koffi.load(null);

// ioctl is variadic; on Linux (x64, arm64) a variadic call passes these arguments as a plain one does.
const callIoctl: (fd: number, request: number, argument: Uint8Array | null) => number = library.func('ioctl', 'int', [
  'int',
  'ulong',
  'void *',
]);
const callIoctlValue: (fd: number, request: number, argument: number) => number = library.func('ioctl', 'int', [
  'int',
  'ulong',
  'long',
]);
const callFcntl: (fd: number, command: number, argument: number) => number = library.func('fcntl', 'int', [
  'int',
  'int',
  'long',
]);
const callWrite: (fd: number, data: Uint8Array, length: number) => number = library.func('write', 'intptr_t', [
  'int',
  'void *',
  'size_t',
]);
const callExit: (status: number) => void = library.func('_exit', 'void', ['int']);
const callOpenPt: (flags: number) => number = library.func('posix_openpt', 'int', ['int']);
const callGrantPt: (fd: number) => number = library.func('grantpt', 'int', ['int']);
const callUnlockPt: (fd: number) => number = library.func('unlockpt', 'int', ['int']);
const callPtsName: (fd: number, buffer: Uint8Array, length: number) => number = library.func('ptsname_r', 'int', [
  'int',
  'void *',
  'size_t',
]);

// include/uapi/asm-generic/fcntl.h; the same on x64 and arm64.
const F_DUPFD_CLOEXEC = 1030;
const F_GETFL = 3;
const O_CLOEXEC = 0o2000000;
/** A path of /dev/pts is far shorter. */
const PTS_NAME_BYTES = 128;

function checked(call: string, result: number): number {
  if (result === -1) throw new SystemCallError(call, koffi.errno());
  return result;
}

/** ioctl with a buffer (or nothing) as its argument; throws SystemCallError. */
export function ioctl(fd: number, name: string, request: number, argument: Uint8Array | null): void {
  checked(name, callIoctl(fd, request, argument));
}

/** ioctl whose argument is a number. */
export function ioctlValue(fd: number, name: string, request: number, argument: number): void {
  checked(name, callIoctlValue(fd, request, argument));
}

/**
 * write() to a non-blocking file: the bytes it took, 0 when it takes none now. fs.writeSync would make an exception
 * for each of these refusals.
 */
export function writeSome(fd: number, data: Uint8Array): number {
  const taken = callWrite(fd, data, data.length);
  if (taken !== -1) return taken;
  const errno = koffi.errno();
  if (errno === constants.errno.EAGAIN || errno === constants.errno.EINTR) return 0;
  throw new SystemCallError('write', errno);
}

/** A second descriptor of the same open file. */
export function duplicate(fd: number): number {
  return checked('fcntl', callFcntl(fd, F_DUPFD_CLOEXEC, 0));
}

/** The flags an open file has now (O_NONBLOCK and the like). */
export function openFlags(fd: number): number {
  return checked('fcntl', callFcntl(fd, F_GETFL, 0));
}

/** A new pseudo-terminal's master, with the path of its slave. */
export function openMaster(flags: number): { readonly master: number; readonly slavePath: string } {
  const master = checked('posix_openpt', callOpenPt(flags | O_CLOEXEC));
  checked('grantpt', callGrantPt(master));
  checked('unlockpt', callUnlockPt(master));
  const name = Buffer.alloc(PTS_NAME_BYTES);
  const errno = callPtsName(master, name, name.length);
  if (errno !== 0) throw new SystemCallError('ptsname_r', errno);
  return { master, slavePath: name.toString('utf8', 0, name.indexOf(0)) };
}

/** Ends the process without waiting for its other threads, as far as the kernel lets go of them. */
export function exitNow(status: number): void {
  callExit(status);
}
