/** Judges the caller of a guarded listener: bearer token or client certificate, then the role for the method. */

import type { TokenReader } from '../../shared/auth/token-reader.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type CertificateRoles, certificateRoles, mayCall, roleNeeded } from './access.ts';
import type { Connection } from './connection.ts';

export type Authenticator = (
  path: string,
  authorization: readonly string[],
  connection: Connection,
) => Promise<Refusal>;
/** Why the call may not go on; undefined: it may. */
export type Refusal = LinesideError | undefined;

interface Caller {
  readonly name: string;
  readonly roles: readonly string[];
}

/** `certificates` is asked for each call: it may be changed. */
export function authenticatorBy(tokens: TokenReader, certificates: () => CertificateRoles): Authenticator {
  return async (path, authorization, connection) => {
    const caller =
      authorization.length > 0 ? await byToken(tokens, authorization) : byCertificate(certificates(), connection);
    if (caller instanceof LinesideError) return caller;
    if (mayCall(caller.roles, path)) return undefined;
    return new LinesideError(
      'PERMISSION_DENIED',
      `${caller.name} has not the role ${roleNeeded(path)} that this needs`,
    );
  };
}

async function byToken(tokens: TokenReader, authorization: readonly string[]): Promise<Caller | LinesideError> {
  const token = /^bearer +(\S+)$/i.exec(authorization[0] ?? '')?.[1];
  if (authorization.length !== 1 || token === undefined) {
    return new LinesideError('UNAUTHENTICATED', 'the authorization metadata is not "Bearer TOKEN"');
  }
  const owner = await tokens.find(token);
  if (owner === undefined) return new LinesideError('UNAUTHENTICATED', 'no such token, or it was revoked');
  return { name: `token "${owner.name}"`, roles: owner.roles };
}

function byCertificate(certificates: CertificateRoles, connection: Connection): Caller | LinesideError {
  const { certificate, certificateFault } = connection;
  if (certificate !== undefined) {
    return { name: `certificate "${certificate}"`, roles: certificateRoles(certificate, certificates) };
  }
  if (certificateFault !== undefined) {
    return new LinesideError('UNAUTHENTICATED', `the client certificate is not accepted: ${certificateFault}`);
  }
  return new LinesideError('UNAUTHENTICATED', 'this address asks for credentials', {
    hint: 'send "authorization: Bearer TOKEN" metadata, or use a client certificate',
  });
}
