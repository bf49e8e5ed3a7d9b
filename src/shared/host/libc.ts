/**
 * The C library through koffi: the calls of a service that Node has no name for. Loading it takes about 12 ms, so commands do
 * without it.
 */
import koffi from 'koffi';
import { SystemCallError } from '../base/system-call.ts';

const library = koffi.load(null);

const callSocket: (family: number, type: number, protocol: number) => number = library.func('socket', 'int', [
  'int',
  'int',
  'int',
]);
const callSendTo: (
  fd: number,
  data: Uint8Array,
  length: number,
  flags: number,
  address: Uint8Array,
  addressLength: number,
) => number = library.func('sendto', 'intptr_t', ['int', 'void *', 'size_t', 'int', 'void *', 'uint32_t']);
const callGetSockName: (fd: number, address: Uint8Array, length: Uint8Array) => number = library.func(
  'getsockname',
  'int',
  ['int', 'void *', 'void *'],
);
// fcntl is variadic; on Linux (x64, arm64) a variadic call passes these arguments as a plain one does.
const callFcntl: (fd: number, command: number, argument: number) => number = library.func('fcntl', 'int', [
  'int',
  'int',
  'long',
]);

const callPrctl: (option: number, argument: string) => number = library.func('prctl', 'int', ['int', 'str']);

// The kernel's numbers; the same on x64 and arm64.
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const F_SETFD = 2;
const PR_SET_NAME = 15;
const FD_CLOEXEC = 1;
/** sizeof(struct sockaddr_un); sockaddr_storage is 128 and holds every family. */
const UNIX_ADDRESS_BYTES = 110;
const STORAGE_BYTES = 128;
const FAMILY_BYTES = 2;

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

/**
 * What ps and top call this thread, and of the main thread the process: at most 15 bytes. Not process.title, which writes over
 * the command line.
 */
export function nameThread(name: string): void {
  checked('prctl', callPrctl(PR_SET_NAME, name));
}

/** No child of this process inherits it. */
export function closeOnExec(fd: number): void {
  checked('fcntl', callFcntl(fd, F_SETFD, FD_CLOEXEC));
}
