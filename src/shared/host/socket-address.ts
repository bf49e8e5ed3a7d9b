/** A sockaddr of the kernel as an address to listen on (unix(7), ip(7), ipv6(7)). Pure. */
import type { ListenAddress } from '../config/listen.ts';
import { isLoopback } from '../config/listen.ts';

// The kernel's numbers; the same on x64 and arm64, both little-endian where the family is concerned.
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const FAMILY_BYTES = 2;
/** sizeof(struct sockaddr_in) without its padding, and sockaddr_in6. */
const INET_BYTES = 8;
const INET6_BYTES = 28;

/** TypeError: a family that nothing here listens on, or a Unix socket without a name. */
export function addressOf(sockaddr: Uint8Array, fd: number): ListenAddress {
  const view = new DataView(sockaddr.buffer, sockaddr.byteOffset, sockaddr.byteLength);
  const family = sockaddr.length < FAMILY_BYTES ? 0 : view.getUint16(0, true);
  if (family === AF_UNIX) return { kind: 'unix', path: unixName(sockaddr.subarray(FAMILY_BYTES)), fd };
  if (family === AF_INET && sockaddr.length >= INET_BYTES) {
    const host = [...sockaddr.subarray(4, 8)].join('.');
    return { kind: 'tcp', host, port: view.getUint16(2), loopback: isLoopback(host), fd };
  }
  if (family === AF_INET6 && sockaddr.length >= INET6_BYTES) {
    const groups = Array.from({ length: 8 }, (_, i) => view.getUint16(8 + 2 * i).toString(16));
    // The URL standard's parser writes IPv6 in its one short form (RFC 5952).
    const host = new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1);
    return { kind: 'tcp', host, port: view.getUint16(2), loopback: isLoopback(host), fd };
  }
  throw new TypeError(`it is of address family ${family}`);
}

/** A path up to its closing zero; an abstract name (which begins with one) with "@" in front. */
function unixName(bytes: Uint8Array): string {
  if (bytes.length === 0) throw new TypeError('it is a Unix socket without a name');
  if (bytes[0] === 0) return `@${new TextDecoder().decode(bytes.subarray(1))}`;
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end === -1 ? bytes : bytes.subarray(0, end));
}
