/** Secrets that systemd hands to a unit: `credential:NAME` where a path would be. Pure. */

const PREFIX = 'credential:';
/** The value of a key that names a file. No slash: a credential lies in the directory itself. */
export const FILE_PATTERN = '^(/|$|credential:[A-Za-z0-9][A-Za-z0-9._-]*$)';

/**
 * Where the file is. The units load a whole directory (LoadCredential=lineside:DIRECTORY), whose parts systemd names
 * "lineside_" and the file's own name. Unchanged where systemd handed over none.
 */
export function credentialPath(written: string, directory: string | undefined): string {
  return isCredential(written) && directory?.startsWith('/') === true
    ? `${directory}/lineside_${written.slice(PREFIX.length)}`
    : written;
}

/** The name of a credential that systemd would have put there; undefined: the path is another one. */
export function credentialAt(path: string): string | undefined {
  return /\/lineside_([A-Za-z0-9][A-Za-z0-9._-]*)$/.exec(path)?.[1];
}

/** It still names a credential: systemd handed none to this process. */
export function isCredential(file: string): boolean {
  return file.startsWith(PREFIX);
}
