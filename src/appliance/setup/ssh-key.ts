/** Public keys of OpenSSH, as ssh.keys holds them. Pure. */

const KINDS = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
  'ssh-rsa',
];

/** undefined: it is one. The fault never shows the text, which may be a private key. */
export function sshKeyFault(text: string): string | undefined {
  if (text.includes('PRIVATE KEY')) return 'is a PRIVATE key: it must not be here. Write the line of the .pub file';
  // A line end would begin another key, or an option.
  if (/[\n\r\t]/.test(text.trim())) return 'must be one line';
  const [kind = '', data = ''] = text.trim().split(/ +/);
  if (!KINDS.includes(kind)) return `must begin with the kind of the key: ${KINDS.slice(0, 2).join(', ')}, ...`;
  return innerKind(data) === kind ? undefined : 'is damaged: copy the whole line of the .pub file';
}

/** The key's data begins with its kind again: four bytes of length, then the name. */
function innerKind(data: string): string | undefined {
  if (!/^[A-Za-z0-9+/]{40,}={0,2}$/.test(data) || data.length % 4 !== 0) return undefined;
  const bytes = atob(data);
  const length =
    bytes.charCodeAt(0) * 2 ** 24 + bytes.charCodeAt(1) * 2 ** 16 + bytes.charCodeAt(2) * 256 + bytes.charCodeAt(3);
  return bytes.slice(4, 4 + length);
}
