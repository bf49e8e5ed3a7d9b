/**
 * Every configuration key, once: its path in the TOML file, and the schema of its value with default, limits and meaning.
 * The parser, the commented example (systemd/lineside.toml), the environment's names, the printed JSON Schema and the
 * documentation are all held to this table.
 */
import { hubKeys } from './hub-keys.ts';
import { file, type Key, list, path, reloaded, text, toggle } from './key.ts';
import { lineKeys } from './line-keys.ts';

const device: readonly Key[] = [
  ...reloaded(
    'hub',
    text(
      'device.id',
      '',
      'Name of this box in its events and facts; empty: made from /etc/machine-id (which it does not reveal), or the host name.',
      {
        pattern: '^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$',
        errorMessage: 'must be 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", beginning with a letter or digit',
      },
    ),
  ),
  ...reloaded(
    'hub',
    toggle(
      'device.inventory',
      true,
      'Keeps the ports and the line as dictionaries device.ports and device.line (scope INTERNAL).',
    ),
  ),
  path(
    'device.time_sync_file',
    '/run/systemd/timesync/synchronized',
    'File whose presence says that the clock is right (systemd-timesyncd makes it); empty: not known.',
  ),
];

const data: readonly Key[] = [
  path(
    'data.dir',
    '/var/lib/lineside',
    'Directory of the serial log and of what survives a restart; default: STATE_DIRECTORY where systemd sets it.',
    { systemd: 'STATE_DIRECTORY' },
  ),
  path(
    'data.runtime_dir',
    '/run/lineside',
    'Directory of the Unix socket; emptied by a reboot; default: RUNTIME_DIRECTORY where systemd sets it.',
    { systemd: 'RUNTIME_DIRECTORY' },
  ),
];

const access: readonly Key[] = [
  ...reloaded(
    'live, hub',
    file(
      'tls.cert_file',
      'Certificate chain (PEM) for addresses beyond this machine; read at start where there are any.',
    ),
  ),
  ...reloaded(
    'live, hub',
    file('tls.key_file', 'Its private key (PEM), or "credential:NAME"; read at start where there are such addresses.'),
  ),
  ...reloaded(
    'live, hub',
    file('tls.client_ca_file', 'Certificate authorities (PEM) whose client certificates are accepted; read at start.'),
  ),
  path(
    'auth.tokens_file',
    '/etc/lineside/tokens.json',
    'Hashes of the bearer tokens, kept by "lineside token"; changes take effect within a second.',
  ),
  ...reloaded(
    'live',
    list(
      'auth.operator_certs',
      [],
      'Common names of client certificates with role operator (may do everything); "*": any.',
    ),
  ),
  ...reloaded(
    'live',
    list(
      'auth.viewer_certs',
      [],
      'Common names of client certificates with role viewer (may look, not touch); "*": any.',
    ),
  ),
];

export const keys: readonly Key[] = [...device, ...data, ...lineKeys, ...hubKeys, ...access];

/** LINESIDE_SERIAL_RX_BUFFER_BYTES for serial.rx_buffer_bytes. */
export function variableOf(key: Pick<Key, 'path'>): string {
  return `LINESIDE_${key.path.replaceAll('.', '_').toUpperCase()}`;
}

/** Variables that are no keys: LINESIDE_CONFIG names the file, LINESIDE_DEBUG says more, the others are the command line's own. */
export const reservedVariables: readonly string[] = [
  'LINESIDE_CONFIG',
  'LINESIDE_DEBUG',
  'LINESIDE_SOCKET',
  'LINESIDE_HTTP_SOCKET',
  'LINESIDE_HOST',
  'LINESIDE_TOKEN_FILE',
  'LINESIDE_CA',
  'LINESIDE_FINGERPRINT',
];
