/** Whether the service could start with a configuration, as far as the files that it names and the exposure go. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { listTokens, type StoredToken } from '../auth/tokens.ts';
import { readFaultOf } from '../base/errors.ts';
import type { Config } from './config.ts';
import { credentialAt, isCredential } from './credential.ts';
import { exposureFaults, isExposed } from './exposure.ts';
import type { Fault } from './values.ts';

/**
 * 'line', 'hub': one process of the service; 'serve': both; 'check': both, checked by a command, which is
 * handed no credentials; 'locate': only needs the place of something.
 */
export type Purpose = 'serve' | 'line' | 'hub' | 'check' | 'locate';

type NamedFile = readonly [path: string, file: string, mustHoldText?: 'secret'];

/** `keyFile`: webhooks.key_file as it is written; as a credential it is not made if it is missing. */
export function startFaults(config: Config, keyFile: string, purpose: Purpose): Fault[] {
  if (purpose === 'locate') return [];
  const { grpc, http } = config;
  const tokens = storedTokens(config);
  const hubFiles = purpose === 'line' ? [] : filesOfHub(config, keyFile);
  // The service starts without a certificate that it can use: this machine's own addresses are served, and the log is kept.
  const needsTls = purpose === 'check' && (isExposed(grpc.listen) || isExposed(http.listen));
  return [
    ...(needsTls ? filesOfTls(config).flatMap((one) => fileFaults(one, purpose)) : []),
    ...(purpose === 'hub' ? [] : exposureFaults(config, tokens, ['grpc'])),
    ...hubFiles.flatMap((one) => fileFaults(one, purpose)),
    ...(purpose === 'line' ? [] : exposureFaults(config, tokens, ['http'])),
  ];
}

export function filesOfTls({ tls }: Config): NamedFile[] {
  return [
    ['tls.cert_file', tls.certFile],
    ['tls.key_file', tls.keyFile],
    ['tls.client_ca_file', tls.clientCaFile],
  ];
}

/** `keyFile`: as for startFaults(). */
export function filesOfHub({ kafka, webhooks, upstream }: Config, keyFile: string): NamedFile[] {
  const collector: NamedFile[] = [
    ['upstream.collector_ca_file', upstream.collectorCaFile],
    ['upstream.collector_token_file', upstream.collectorTokenFile, 'secret'],
  ];
  return [
    ['kafka.ca_file', kafka.caFile],
    ['kafka.password_file', kafka.passwordFile, 'secret'],
    ['webhooks.ca_file', webhooks.caFile],
    ...(upstream.to === 'collector' ? collector : []),
    ...(isCredential(keyFile) ? [['webhooks.key_file', webhooks.keyFile] as const] : []),
  ];
}

/** One fault, or none; '' is no file. A secret must be readable and not empty. */
function fileFaults([path, file, isSecret]: NamedFile, purpose: Purpose): Fault[] {
  if (file === '') return [];
  if (isCredential(file)) {
    const message = `${file} is handed over by systemd, and was not (CREDENTIALS_DIRECTORY is not set)`;
    return purpose === 'check' ? [] : [{ path, message }];
  }
  try {
    if (isSecret === undefined) accessSync(file, constants.R_OK);
    else if (readPassword(file) === '') return [{ path, message: `${file} is empty` }];
    return [];
  } catch (error) {
    return [{ path, message: `cannot read ${file}: ${readFaultOf(error)}${credentialHint(file)}` }];
  }
}

/** A file that holds a secret and perhaps a newline behind it. */
export function readPassword(file: string): string {
  return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
}

/** systemd reads the directory of secrets when it starts a service, and never again. */
function credentialHint(file: string): string {
  const name = credentialAt(file);
  return name === undefined
    ? ''
    : ` (systemd handed over no credential "${name}": check the name; if its file is new, restart the service)`;
}

function storedTokens({ auth }: Config): StoredToken[] {
  try {
    return listTokens(auth.tokensFile);
  } catch {
    // Only exposure is checked here; the token reader reports a damaged file, and admits no caller.
    return [];
  }
}
