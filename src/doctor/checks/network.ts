/** Checks of the network: a way out, the names of the hosts that are called; and a connection to each of them, with TLS. */

import { X509Certificate } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect, isIP, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { type Finding, type Findings, failed, ok, skipped, warning } from '../check.ts';
import { type CheckContext, type ConfiguredContext, readNamedFile, within } from '../check-context.ts';
import { textOf } from '../safe-files.ts';

/** A resolver asks each server for 5 s, twice: if one round brings no answer, DNS does not work. */
const nameLimitMs = 6_000;
const connectLimitMs = 5_000;
/** Of brokers that are checked. */
const hostsLimit = 8;

export interface Host {
  readonly key: string;
  readonly host: string;
  readonly port: number;
}

/** The hosts that the hub calls: a collector only if the log is sent there. */
export function calledHosts({ config }: Pick<ConfiguredContext, 'config'>): Host[] {
  const { to, collector } = config.upstream;
  const brokers = hostsIn('kafka.bootstrap', config.kafka.bootstrap, 9092);
  return to === 'collector' ? [...brokers, ...hostsIn('upstream.collector', collector, 50051)] : brokers;
}

/** "host:port,[v6]:port" */
export function hostsIn(key: string, text: string, defaultPort: number): Host[] {
  return text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
    .slice(0, hostsLimit)
    .map((one) => {
      const bare = one.replace(/^[a-z0-9_+]+:\/\//i, '').replace(/\/.*$/, '');
      const [, v6, name, port] = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?$/.exec(bare) ?? [];
      return { key, host: v6 ?? name ?? bare, port: Number(port ?? defaultPort) };
    });
}

/** The addresses of a name, or the code of the error; "late": there was no answer. */
export type Resolved = readonly string[] | string;

type Network = { readonly hasRoute: boolean; readonly hosts: readonly (Host & { readonly resolved: Resolved })[] };

export function* judgeNetwork({ hasRoute, hosts }: Network): Findings {
  if (hosts.length === 0)
    yield ok(
      hasRoute
        ? 'there is a way out; no host is configured to be called'
        : 'there is no default route, and none is needed',
    );
  else if (!hasRoute)
    yield warning(
      'there is no default route',
      'Fine if all hosts are on this network; otherwise check cable, Wi-Fi and DHCP.',
    );
  for (const { key, host, resolved } of hosts) yield judgeName(key, host, resolved, hasRoute);
}

const nameFaults: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no such name',
  EAI_AGAIN: 'no DNS server answers',
  EAI_NODATA: 'the name has no address',
};

function judgeName(key: string, host: string, resolved: Resolved, hasRoute: boolean): Finding {
  const dns = `Check the name in ${key}, and the DNS server (resolvectl status, /etc/resolv.conf).`;
  if (typeof resolved !== 'string')
    return ok(`${key}: ${host} ${isIP(host) === 0 ? `is ${resolved.slice(0, 3).join(', ')}` : 'needs no DNS'}`);
  return resolved === 'late'
    ? failed(
        `DNS does not answer about ${host} (${key}) within ${nameLimitMs / 1000} s`,
        hasRoute ? dns : 'There is no network.',
      )
    : failed(`DNS: ${host} (${key}) cannot be resolved: ${nameFaults[resolved] ?? resolved}`, dns);
}

export async function checkNetwork(context: ConfiguredContext): Promise<Findings> {
  const hosts = calledHosts(context).map(async (one) => ({
    ...one,
    resolved: await resolveName(context.clock, one.host),
  }));
  return judgeNetwork({ hasRoute: await hasDefaultRoute(context), hosts: await Promise.all(hosts) });
}

async function hasDefaultRoute({ roots }: CheckContext): Promise<boolean> {
  const [v4, v6] = await Promise.all([
    textOf(join(roots.proc, 'net/route')),
    textOf(join(roots.proc, 'net/ipv6_route')),
  ]);
  const isV4 = v4.split('\n').some((line) => /^(?!lo\s)\S+\s+00000000\s/.test(line));
  return isV4 || v6.split('\n').some((line) => /^0{32} 00 /.test(line) && !/\slo$/.test(line));
}

async function resolveName(clock: Clock, host: string): Promise<Resolved> {
  if (isIP(host) !== 0) return [host];
  const resolved = lookup(host, { all: true }).then(
    (all): Resolved => all.map(({ address }) => address),
    (error: unknown) => systemCode(error) || 'unknown',
  );
  return within(clock, nameLimitMs, resolved, 'late');
}

/** '' if the connection is accepted, else the code of the error, ETIMEDOUT at the limit. The caller destroys the socket. */
export function connectCode(clock: Clock, socket: Socket, limitMs: number): Promise<string> {
  const answered = new Promise<string>((resolve) => {
    socket.once('connect', () => resolve(''));
    socket.on('error', (error) => resolve(codeOf(error)));
  });
  return within(clock, limitMs, answered, 'ETIMEDOUT');
}

async function connectTo(clock: Clock, { host, port }: Host): Promise<Socket | string> {
  const socket = connect({ host, port, autoSelectFamily: true });
  const code = await connectCode(clock, socket, connectLimitMs);
  if (code !== '') socket.destroy();
  return code || socket;
}

/** If several addresses were tried, the code of the first. */
function codeOf(error: unknown): string {
  const own = systemCode(error);
  if (own !== '') return own;
  return error instanceof AggregateError ? systemCode(error.errors[0]) || 'unknown' : 'unknown';
}

/** By the code of a failed connection; KEY: the key that names the host. */
const connectFaults: Readonly<Record<string, readonly [found: string, todo: string]>> = {
  ECONNREFUSED: [': nothing listens there (connection refused)', 'The remote is down, or the port in KEY is wrong.'],
  ETIMEDOUT: [' does not answer (timed out)', 'A firewall, or the address in KEY is wrong.'],
  ENETUNREACH: [': there is no route to it', 'Check cable, Wi-Fi and gateway.'],
  EHOSTUNREACH: [': there is no route to it', 'Check cable, Wi-Fi and gateway.'],
};

export function judgeConnect({ key, host, port }: Host, code: string): Finding {
  const at = `${host}:${port}`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return skipped(`${at}: its name cannot be resolved`, 'See network.');
  const [found, todo] = connectFaults[code] ?? [`: no connection (${code})`, 'Check the network and KEY.'];
  return failed(at + found, todo.replace('KEY', key));
}

// A connection to a server that the hub calls, with TLS, and what is wrong with it.

const tlsLimitMs = 5_000;
const soonMs = 30 * 86_400_000;

/** Debian's list, if no file is named. */
const systemAuthorities = '/etc/ssl/certs/ca-certificates.crt';

export interface Peer {
  readonly who: string;
  readonly address: string;
  readonly authorities: string;
  readonly protocol: string;
}

export async function authoritiesOf(peer: Peer, caFile: string): Promise<Buffer | Finding> {
  if (caFile !== '') return readNamedFile(peer.authorities, caFile);
  return existsSync(systemAuthorities) ? readFile(systemAuthorities) : Buffer.alloc(0);
}

export async function reach({ clock }: CheckContext, peer: Peer, host: Host, authorities: Buffer | undefined) {
  const at = `${host.host}:${host.port}`;
  if (typeof (await resolveName(clock, host.host)) === 'string')
    return skipped(`${at}: its name cannot be resolved`, 'See network and DNS.');
  const socket = await connectTo(clock, host);
  if (typeof socket === 'string') return judgeConnect(host, socket);
  if (authorities === undefined) {
    socket.destroy();
    return ok(`${at} takes connections`);
  }
  return judgeTls(peer, at, host.host, await handshake(clock, socket, host, authorities), clock.wallMs());
}

export function isReached({ state }: Finding): boolean {
  return state === 'ok' || state === 'warning';
}

/** What the server shows, or the code of the error; "late": there was no answer. */
export type Handshake = Shown | string;

interface Shown {
  /** Why the certificate is not trusted; ''. */
  readonly fault: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly names: string;
}

export function judgeTls(peer: Peer, at: string, host: string, shake: Handshake, nowMs: number): Finding {
  const { who } = peer;
  const protocol = `Check ${peer.protocol}.`;
  if (shake === 'late')
    return failed(`${at} takes the connection and does not answer TLS within ${tlsLimitMs / 1000} s`, protocol);
  if (typeof shake === 'string') return failed(`${at} does not speak TLS on this port (${shake})`, protocol);
  const { fault, fromMs, toMs, names } = shake;
  const notify = `Notify the operator of ${who}.`;
  const clock = "Or this machine's clock is wrong: see clock.";
  const day = (ms: number): string => instantOfMs(ms).slice(0, 10);
  if (fault === '')
    return toMs - nowMs < soonMs
      ? warning(`${at}: TLS; ${who}'s certificate ends on ${day(toMs)}`, notify)
      : ok(`${at}: TLS, the certificate is trusted and valid until ${day(toMs)}`);
  const known: Readonly<Record<string, readonly [found: string, todo: string]>> = {
    CERT_HAS_EXPIRED: [`has expired on ${day(toMs)}`, `${notify} ${clock}`],
    CERT_NOT_YET_VALID: [`is not valid before ${day(fromMs)}`, clock],
    ERR_TLS_CERT_ALTNAME_INVALID: [
      `is not for ${host} (${names || 'no name'})`,
      `Name it in ${peer.address} as its certificate does.`,
    ],
  };
  const [found, todo] = known[fault] ?? [
    `is not from an authority that ${peer.authorities} names (${fault})`,
    'Put the certificate of its authority into that file.',
  ];
  return failed(`${at}: ${who}'s certificate ${found}`, todo);
}

export async function speaksTls({ clock }: CheckContext, host: Host): Promise<boolean> {
  const socket = await connectTo(clock, host);
  return typeof socket !== 'string' && typeof (await handshake(clock, socket, host, Buffer.alloc(0))) !== 'string';
}

async function handshake(clock: Clock, socket: Socket, { host }: Host, ca: Buffer): Promise<Handshake> {
  let tls: TLSSocket | undefined;
  const done = new Promise<Handshake>((resolve) => {
    socket.removeAllListeners('error');
    try {
      tls = connectTls({
        socket,
        ...(isIP(host) === 0 && { servername: host }),
        host,
        ...(ca.length > 0 && { ca }),
        rejectUnauthorized: false,
      });
      tls.once('secureConnect', () => resolve(tls === undefined ? 'late' : shownBy(tls)));
      tls.on('error', (error) => resolve(systemCode(error) || 'unknown'));
      tls.once('close', () => resolve('it hangs up'));
    } catch (error) {
      resolve(systemCode(error) || messageOf(error));
    }
  });
  const result = await within(clock, tlsLimitMs, done, 'late');
  tls?.destroy();
  socket.destroy();
  return result;
}

function shownBy(tls: TLSSocket): Shown {
  const error: unknown = tls.authorizationError;
  const fault = error == null ? '' : typeof error === 'string' ? error : systemCode(error) || messageOf(error);
  const raw = tls.getPeerX509Certificate();
  const cert = raw === undefined ? undefined : new X509Certificate(raw.raw);
  return {
    fault,
    fromMs: cert?.validFromDate.getTime() ?? 0,
    toMs: cert?.validToDate.getTime() ?? 0,
    names: cert?.subjectAltName ?? '',
  };
}
