/**
 * The listening sockets of systemd (socket activation, sd_listen_fds(3)): those that it handed over to this process, each with
 * its purpose and address, and those that its socket units promise. systemd keeps them open while the process restarts, so that
 * clients wait instead of being refused.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import ipaddr from 'ipaddr.js';
import { LinesideError, messageOf } from '../base/errors.ts';
import { isLoopback, type ListenAddress } from '../config/listen.ts';

export interface InheritedSocket {
  /** FileDescriptorName= of its socket unit. */
  readonly name: string;
  readonly fd: number;
  readonly address: ListenAddress;
}

/** SD_LISTEN_FDS_START: behind standard input, output and error. */
const FIRST_FD = 3;
/** Two socket units with a few addresses each; a number beyond that is no list of ours. */
const MAX_SOCKETS = 64;
const variables = ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES'];

/**
 * None where systemd handed none to this very process. The variables go from `env`, and no child inherits the sockets.
 * CONFIG_INVALID: one that is no socket of a kind to listen on.
 */
export async function inheritedSockets(env: NodeJS.ProcessEnv, pid = process.pid): Promise<readonly InheritedSocket[]> {
  const { LISTEN_PID: forPid, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = env;
  for (const variable of variables) delete env[variable];
  if (forPid !== String(pid) || count === undefined) return [];
  const sockets = Number(count);
  if (!/^\d+$/.test(count) || sockets > MAX_SOCKETS) {
    throw new LinesideError('CONFIG_INVALID', `LISTEN_FDS is "${count}", not a number of sockets up to ${MAX_SOCKETS}`);
  }
  const { closeOnExec, socketAddress } = await import('../base/libc.ts');
  const named = names.split(':');
  return Array.from({ length: sockets }, (_, i) => {
    const fd = FIRST_FD + i;
    const name = named[i] ?? '';
    try {
      closeOnExec(fd);
      return { name, fd, address: addressOf(socketAddress(fd), fd) };
    } catch (error) {
      throw new LinesideError(
        'CONFIG_INVALID',
        `descriptor ${fd} ("${name}"), handed over to listen on, cannot be used: ${messageOf(error)}`,
        { cause: error, hint: 'see ListenStream= and FileDescriptorName= of the socket units' },
      );
    }
  });
}

/** The addresses by the section of the configuration whose `listen` they replace; CONFIG_INVALID: one that has no use here. */
export function listenersFor<Section extends string>(
  sockets: readonly InheritedSocket[],
  sections: readonly Section[],
): Partial<Record<Section, readonly ListenAddress[]>> {
  const found: Partial<Record<Section, ListenAddress[]>> = {};
  for (const { name, fd, address } of sockets) {
    const section = sections.find((one) => one === name);
    if (section === undefined) {
      throw new LinesideError('CONFIG_INVALID', `descriptor ${fd} is named "${name}", not ${sections.join(' or ')}`, {
        hint: 'see FileDescriptorName= and Service= of the socket units',
      });
    }
    const list = (found[section] ??= []);
    list.push(address);
  }
  return found;
}

// A sockaddr of the kernel as an address to listen on (unix(7), ip(7), ipv6(7)).

// The kernel's numbers; the same on x64 and arm64, both little-endian where the family is concerned.
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const FAMILY_BYTES = 2;

/** TypeError: a family that nothing here listens on, or a Unix socket without a name. */
export function addressOf(sockaddr: Uint8Array, fd: number): ListenAddress {
  const view = new DataView(sockaddr.buffer, sockaddr.byteOffset, sockaddr.byteLength);
  const family = sockaddr.length < FAMILY_BYTES ? 0 : view.getUint16(0, true);
  if (family === AF_UNIX) return { kind: 'unix', path: unixName(sockaddr.subarray(FAMILY_BYTES)), fd };
  // The place of the address in sockaddr_in and sockaddr_in6.
  const [from, to] = family === AF_INET ? [4, 8] : family === AF_INET6 ? [8, 24] : [0, 0];
  if (to > 0 && sockaddr.length >= to) {
    const host = ipaddr.fromByteArray([...sockaddr.subarray(from, to)]).toString();
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

// The listeners that the socket units promise, as systemd has them: seen from outside the processes that serve there. A process
// whose socket unit is not open may listen in its place, with other rights, or not at all.

export interface PromisedSocket {
  readonly unit: string;
  readonly isOpen: boolean;
  /** As systemd writes them: "/run/lineside/http.sock", "127.0.0.1:8080", "[::]:8443". */
  readonly addresses: readonly string[];
}

const CERTIFICATE = '/etc/lineside/tls/server.crt';
export const socketUnits = ['', '-local', '-lan', '-hub', '-hub-local', '-hub-lan'].map(
  (name) => `lineside${name}.socket`,
);
/** It answers in milliseconds; at boot it is busy. */
const LIMIT_MS = 8_000;
const LIMIT_BYTES = 64 * 1_024;

/** Asks systemd; empty if the units are not installed, undefined if systemd does not answer. */
export function promisedSockets(): Promise<readonly PromisedSocket[] | undefined> {
  const args = ['show', '--property=Id,LoadState,ActiveState,Listen', ...socketUnits];
  const limits = { timeout: LIMIT_MS, maxBuffer: LIMIT_BYTES, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    execFile('systemctl', args, limits, (error, stdout) =>
      resolve(error === null ? promisedIn(stdout, existsSync(CERTIFICATE)) : undefined),
    );
  });
}

/** Reads the output of systemctl. Masked units promise nothing, and those of the LAN nothing without a certificate. */
export function promisedIn(shown: string, hasCertificate: boolean): readonly PromisedSocket[] {
  return shown.split(/\n{2,}/).flatMap((block): PromisedSocket[] => {
    const values = (name: string): string[] =>
      block.split('\n').flatMap((line) => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []));
    const [unit = ''] = values('Id');
    if (values('LoadState')[0] !== 'loaded' || (unit.endsWith('-lan.socket') && !hasCertificate)) return [];
    const addresses = values('Listen').map((text) => text.replace(/ \(\w+\)$/, ''));
    return [{ unit, isOpen: values('ActiveState')[0] === 'active', addresses }];
  });
}
