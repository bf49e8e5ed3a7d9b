/**
 * The listeners that the socket units promise, as systemd has them: seen from outside the processes that serve there. A process
 * whose socket unit is not open may listen in its place, with other rights, or not at all.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';

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
