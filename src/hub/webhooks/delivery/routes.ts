/**
 * Whether the device has a route to anywhere, as the kernel's tables tell it: with none, deliveries wait and use up no
 * attempts. A route alone says nothing of the cable behind it; that is what attempts find out.
 */
import { readFileSync } from 'node:fs';

const ipv4Table = '/proc/net/route';
const ipv6Table = '/proc/net/ipv6_route';

/** Flags of linux/route.h and linux/ipv6_route.h. */
const RTF_UP = 0x0000_0001;
const RTF_REJECT = 0x0000_0200;
const RTF_ANYCAST = 0x0010_0000;
/** An address of its own. */
const RTF_LOCAL = 0x8000_0000;

/** True also where neither table can be read: then it is not known, and the schedule goes on. */
export function createRouteLook(readFile: (path: string) => string = (path) => readFileSync(path, 'utf8')) {
  return (): boolean => {
    const ipv4 = readOrNothing(readFile, ipv4Table);
    const ipv6 = readOrNothing(readFile, ipv6Table);
    if (ipv4 === undefined && ipv6 === undefined) return true;
    return hasIpv4Route(ipv4 ?? '') || hasIpv6Route(ipv6 ?? '');
  };
}

/** A kernel without IPv6 has no table of it. */
function readOrNothing(readFile: (path: string) => string, path: string): string | undefined {
  try {
    return readFile(path);
  } catch {
    return undefined;
  }
}

/** Of the text of /proc/net/route: interface, destination, gateway, flags, ...; addresses in hex, the first byte last (little-endian machines). */
export function hasIpv4Route(table: string): boolean {
  return rowsOf(table).some(([name = '', destination = '', , flags = '']) => {
    if (!/^[\dA-F]{8}$/i.test(destination) || !isUsable(name, Number.parseInt(flags, 16))) return false;
    const first = Number.parseInt(destination.slice(6, 8), 16);
    const second = Number.parseInt(destination.slice(4, 6), 16);
    const isLinkLocal = first === 169 && second === 254;
    const isMulticast = first >= 224 && first <= 239;
    return first !== 127 && !isLinkLocal && !isMulticast;
  });
}

/** Of the text of /proc/net/ipv6_route: destination, prefix length, source, its length, gateway, metric, references, uses, flags, interface. */
export function hasIpv6Route(table: string): boolean {
  return rowsOf(table).some(([destination = '', , , , , , , , flags = '', name = '']) => {
    if (!/^[\da-f]{32}$/i.test(destination) || !isUsable(name, Number.parseInt(flags, 16))) return false;
    const first = Number.parseInt(destination.slice(0, 4), 16);
    const isLinkLocal = (first & 0xffc0) === 0xfe80;
    const isMulticast = (first & 0xff00) === 0xff00;
    return !isLinkLocal && !isMulticast;
  });
}

function isUsable(name: string, flags: number): boolean {
  return name !== 'lo' && (flags & RTF_UP) !== 0 && (flags & (RTF_REJECT | RTF_ANYCAST | RTF_LOCAL)) === 0;
}

function rowsOf(table: string): string[][] {
  return table
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length > 1);
}
