/**
 * The C library through koffi: the system calls that Node has no name for. Loading it takes about 12 ms, so commands, and
 * the start of a service without a port, do without it.
 */
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import koffi from 'koffi';

// A system call that was made through koffi and failed.

/** `code` is the error's name ("EIO"), as on Node's own errors. */
class SystemCallError extends Error {
  override readonly name = 'SystemCallError';
  readonly code: string;

  constructor(call: string, errno: number) {
    const code = getSystemErrorName(-errno);
    super(`${call}: ${code}`);
    this.code = code;
  }
}

const library = koffi.load(null);

// fcntl, ioctl and prctl are variadic; on Linux (x64, arm64) a variadic call passes these arguments as a plain one does.
type Call<Arguments extends unknown[], Result = number> = (...values: Arguments) => Result;
const callSocket: Call<[number, number, number]> = library.func('int socket(int, int, int)');
const callSendTo: Call<[number, Uint8Array, number, number, Uint8Array, number]> = library.func(
  'intptr_t sendto(int, void *, size_t, int, void *, uint32_t)',
);
const callGetSockName: Call<[number, Uint8Array, Uint8Array]> = library.func('int getsockname(int, void *, void *)');
const callGetSockOpt: Call<[number, number, number, Uint8Array, Uint8Array]> = library.func(
  'int getsockopt(int, int, int, void *, void *)',
);
const callFcntl: Call<[number, number, number]> = library.func('int fcntl(int, int, long)');
const callPrctlName: Call<[number, string]> = library.func('prctl', 'int', ['int', 'str']);
const callPrctlValue: Call<[number, number]> = library.func('prctl', 'int', ['int', 'ulong']);
const callSetAffinity: Call<[number, number, Uint8Array]> = library.func('int sched_setaffinity(int, size_t, void *)');
const callFlock: Call<[number, number]> = library.func('int flock(int, int)');
const callFadvise: Call<[number, number, number, number]> = library.func(
  'int posix_fadvise(int, int64_t, int64_t, int)',
);
const callIoctl: Call<[number, number, Uint8Array | null]> = library.func('ioctl', 'int', ['int', 'ulong', 'void *']);
const callIoctlValue: Call<[number, number, number]> = library.func('ioctl', 'int', ['int', 'ulong', 'long']);
const callWrite: Call<[number, Uint8Array, number]> = library.func('intptr_t write(int, void *, size_t)');
const callTrim: Call<[number]> = library.func('int malloc_trim(size_t)');
const callExit: Call<[number], void> = library.func('void _exit(int)');
const callOpenPt: Call<[number]> = library.func('int posix_openpt(int)');
const callGrantPt: Call<[number]> = library.func('int grantpt(int)');
const callUnlockPt: Call<[number]> = library.func('int unlockpt(int)');
const callPtsName: Call<[number, Uint8Array, number]> = library.func('int ptsname_r(int, void *, size_t)');

// The kernel's numbers; the same on x64 and arm64.
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
const LOCK_EX = 2;
const LOCK_NB = 4;
const F_SETFD = 2;
const F_DUPFD_CLOEXEC = 1030;
const O_CLOEXEC = 0o2000000;
const POSIX_FADV_DONTNEED = 4;
const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;
const PR_SET_NAME = 15;
const FD_CLOEXEC = 1;
/** sizeof(cpu_set_t): 1,024 processors. */
const AFFINITY_BYTES = 128;
/** sizeof(struct sockaddr_un); sockaddr_storage is 128 and holds every family. */
const UNIX_ADDRESS_BYTES = 110;
const STORAGE_BYTES = 128;
const FAMILY_BYTES = 2;
/** struct ucred: pid, uid, gid. */
const CREDENTIALS_BYTES = 12;
/** A path of /dev/pts is far shorter. */
const PTS_NAME_BYTES = 128;

function checked(call: string, result: number): number {
  if (result === -1) throw new SystemCallError(call, koffi.errno());
  return result;
}

/** A datagram socket of family AF_UNIX, which no child inherits; fs.closeSync() closes it. */
export function openDatagramSocket(): number {
  return checked('socket', callSocket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

/** Sends one datagram whole, without waiting; throws SystemCallError (EAGAIN where the receiver's queue is full). */
export function sendDatagram(fd: number, data: Uint8Array, address: Uint8Array): void {
  checked('sendto', callSendTo(fd, data, data.length, MSG_DONTWAIT | MSG_NOSIGNAL, address, address.length));
}

/** A sockaddr_un; undefined where the name is too long. A name that begins with "@" is of the abstract namespace. */
export function unixAddress(name: string): Uint8Array | undefined {
  const path = Buffer.from(name);
  const isAbstract = name.startsWith('@');
  if (isAbstract) path[0] = 0;
  // A path ends with a zero byte, an abstract name with the address.
  const length = FAMILY_BYTES + path.length + (isAbstract ? 0 : 1);
  if (length > UNIX_ADDRESS_BYTES) return undefined;
  const address = Buffer.alloc(length);
  address.writeUInt16LE(AF_UNIX);
  path.copy(address, FAMILY_BYTES);
  return address;
}

/** getsockname(): the sockaddr a socket is bound to, as long as the kernel says. Throws SystemCallError (ENOTSOCK). */
export function socketAddress(fd: number): Buffer {
  const address = Buffer.alloc(STORAGE_BYTES);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(address.length);
  checked('getsockname', callGetSockName(fd, address, length));
  return address.subarray(0, Math.min(length.readUInt32LE(), STORAGE_BYTES));
}

/** User and group of the process that connected to a Unix socket, as they were then. Throws SystemCallError. */
export function peerOf(fd: number): { readonly uid: number; readonly gid: number } {
  const credentials = Buffer.alloc(CREDENTIALS_BYTES);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(credentials.length);
  checked('getsockopt', callGetSockOpt(fd, SOL_SOCKET, SO_PEERCRED, credentials, length));
  return { uid: credentials.readUInt32LE(4), gid: credentials.readUInt32LE(8) };
}

/** This thread runs on that processor alone. */
export function runOnProcessor(processor: number): void {
  const mask = Buffer.alloc(AFFINITY_BYTES);
  mask[processor >> 3] = 1 << (processor & 7);
  checked('sched_setaffinity', callSetAffinity(0, mask.length, mask));
}

/**
 * Name of this thread in ps and top, and of the process if it is the main thread: at most 15 bytes. Not process.title, which writes over
 * the command line.
 */
export function nameThread(name: string): void {
  checked('prctl', callPrctlName(PR_SET_NAME, name));
}

/** No child of this process inherits it. */
export function closeOnExec(fd: number): void {
  checked('fcntl', callFcntl(fd, F_SETFD, FD_CLOEXEC));
}

export function dieWithParent(): void {
  checked('prctl', callPrctlValue(PR_SET_PDEATHSIG, SIGKILL));
}

/** Takes an exclusive flock; false when another open file holds one. */
export function tryLock(fd: number): boolean {
  if (callFlock(fd, LOCK_EX | LOCK_NB) === 0) return true;
  const error = new SystemCallError('flock', koffi.errno());
  if (error.code === 'EAGAIN') return false;
  throw error;
}

/**
 * Has the kernel forget the pages it keeps of a file or a block device, so that the next read comes from the medium. Drops
 * clean pages only: sync first. (O_DIRECT would do it too, but wants memory aligned to the device's sectors, which Node does
 * not promise of a buffer.)
 */
export function dropPages(fd: number): void {
  // It returns the error's number and leaves errno alone.
  // From the beginning (0) to the end (0 bytes).
  const error = callFadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (error !== 0) throw new SystemCallError('posix_fadvise', error);
}

/** Gives the machine all pages of the heap that hold nothing. */
export function trimHeap(): void {
  callTrim(0);
}

/** ioctl with a buffer (or nothing) as its argument; throws SystemCallError. */
export function ioctl(fd: number, name: string, request: number, argument: Uint8Array | null): void {
  checked(name, callIoctl(fd, request, argument));
}

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
