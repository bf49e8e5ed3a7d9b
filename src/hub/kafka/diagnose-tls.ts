/**
 * Why a broker's certificate is refused. librdkafka says no more than "certificate verify failed"; Node's own TLS, with
 * the same authorities, says which fault it is.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { systemCode } from '../../shared/base/errors.ts';

const LIMIT_MS = 5_000;

/** In words; undefined: it could not be found out. Never rejects. */
export function diagnoseTls(address: string, caFile: string, clock: Clock): Promise<string | undefined> {
  const colon = address.lastIndexOf(':');
  const [host, port] = [address.slice(0, colon).replaceAll(/[[\]]/g, ''), Number(address.slice(colon + 1))];
  return new Promise((resolve) => {
    const options: ConnectionOptions = { host, port, rejectUnauthorized: false };
    if (isIP(host) === 0) options.servername = host;
    let socket: TLSSocket | undefined;
    const done = (text: string | undefined): void => {
      limit.cancel();
      socket?.destroy();
      resolve(text);
    };
    const limit = clock.timer(LIMIT_MS, () => done(undefined));
    try {
      if (caFile !== '') options.ca = readFileSync(caFile);
      socket = connect(options, () => done(socket === undefined ? undefined : faultOf(socket, host)));
      socket.on('error', () => done(undefined));
    } catch (error) {
      done(`kafka.ca_file cannot be read (${systemCode(error)}): ${caFile}`);
    }
  });
}

function faultOf(socket: TLSSocket, host: string): string | undefined {
  const error: unknown = socket.authorizationError;
  const code = typeof error === 'string' ? error : systemCode(error);
  const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
  switch (code) {
    case '':
      return undefined;
    case 'CERT_HAS_EXPIRED':
      return `the broker's certificate has expired (${to}); or this device's clock is wrong`;
    case 'CERT_NOT_YET_VALID':
      return `the broker's certificate is not valid before ${from}; or this device's clock is wrong`;
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return `the broker's certificate is not for ${host}`;
    default:
      return `the broker's certificate is not from an authority that kafka.ca_file names (${code})`;
  }
}
