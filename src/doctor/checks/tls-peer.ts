/** A connection with TLS to a server that the hub calls, and what is wrong with it, in words. */
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { type Finding, failed, ok, skipped, warning } from '../check.ts';
import { type CheckContext, readNamedFile, within } from '../check-context.ts';
import { type Connected, connectTo, type Host, judgeConnect, resolveName } from './network.ts';

const tlsLimitMs = 5_000;
const soonMs = 30 * 86_400_000;

/** Of Debian: what is trusted where no file is named. */
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

export async function reach(
  { clock }: CheckContext,
  peer: Peer,
  host: Host,
  authorities: Buffer | undefined,
): Promise<Finding> {
  const at = `${host.host}:${host.port}`;
  const resolved = await resolveName(clock, host.host);
  if (resolved.kind !== 'address') return skipped(`${at}: its name cannot be resolved`, 'See network and DNS.');
  const connected = await connectTo(clock, host.host, host.port);
  if (connected.kind === 'failed') return judgeConnect(host, connected.code);
  if (authorities === undefined) {
    connected.socket.destroy();
    return ok(`${at} takes connections`);
  }
  return judgeTls(peer, at, host.host, await handshake(clock, connected, host, authorities), clock.wallMs());
}

export function isReached({ state }: Finding): boolean {
  return state === 'ok' || state === 'warning';
}

/** `fault`: why the certificate is not trusted; ''. */
export type Handshake =
  | { readonly kind: 'late' }
  | { readonly kind: 'failed'; readonly code: string }
  | {
      readonly kind: 'done';
      readonly fault: string;
      readonly fromMs: number;
      readonly toMs: number;
      readonly names: string;
    };

export function judgeTls(peer: Peer, at: string, host: string, shake: Handshake, nowMs: number): Finding {
  const { who } = peer;
  const protocol = `Check ${peer.protocol}.`;
  if (shake.kind === 'late')
    return failed(`${at} takes the connection and does not answer TLS within ${tlsLimitMs / 1000} s`, protocol);
  if (shake.kind === 'failed') return failed(`${at} does not speak TLS on this port (${shake.code})`, protocol);
  const { fault, fromMs, toMs, names } = shake;
  const tell = `Tell who runs ${who}.`;
  const clock = "Or this machine's clock is wrong: see clock.";
  const day = (ms: number): string => instantOfMs(ms).slice(0, 10);
  if (fault === '')
    return toMs - nowMs < soonMs
      ? warning(`${at}: TLS; ${who}'s certificate ends on ${day(toMs)}`, tell)
      : ok(`${at}: TLS, the certificate is trusted and valid until ${day(toMs)}`);
  const known: Readonly<Record<string, readonly [found: string, todo: string]>> = {
    CERT_HAS_EXPIRED: [`has expired on ${day(toMs)}`, `${tell} ${clock}`],
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
  const connected = await connectTo(clock, host.host, host.port);
  return (await handshake(clock, connected, host, Buffer.alloc(0))).kind === 'done';
}

async function handshake(clock: Clock, connected: Connected, { host }: Host, ca: Buffer): Promise<Handshake> {
  if (connected.kind !== 'open') return { kind: 'failed', code: connected.code };
  const { socket } = connected;
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
      tls.once('secureConnect', () => resolve(tls === undefined ? { kind: 'late' } : shakenBy(tls)));
      tls.on('error', (error) => resolve({ kind: 'failed', code: systemCode(error) || 'unknown' }));
      tls.once('close', () => resolve({ kind: 'failed', code: 'it hangs up' }));
    } catch (error) {
      resolve({ kind: 'failed', code: systemCode(error) || messageOf(error) });
    }
  });
  const result = await within(clock, tlsLimitMs, done, { kind: 'late' });
  tls?.destroy();
  socket.destroy();
  return result;
}

function shakenBy(tls: TLSSocket): Handshake {
  const error: unknown = tls.authorizationError;
  const fault = error == null ? '' : typeof error === 'string' ? error : systemCode(error) || messageOf(error);
  const raw = tls.getPeerX509Certificate();
  const cert = raw === undefined ? undefined : new X509Certificate(raw.raw);
  return {
    kind: 'done',
    fault,
    fromMs: cert?.validFromDate.getTime() ?? 0,
    toMs: cert?.validToDate.getTime() ?? 0,
    names: cert?.subjectAltName ?? '',
  };
}
