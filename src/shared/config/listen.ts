/** Listen addresses: how they are written, and which of them stay on this machine. Pure. */

export type ListenAddress = (
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly loopback: boolean }
) & {
  /** The socket that systemd opened there: nothing is bound then, and its file is not ours. */
  readonly fd?: number;
};

/** struct sockaddr_un holds 108 bytes with the closing NUL. */
const MAX_SOCKET_PATH_BYTES = 107;

/** The address, or what is wrong with it. */
export function parseListen(text: string, runtimeDir: string): ListenAddress | string {
  if (text.startsWith('unix:')) return parseUnix(text.slice('unix:'.length), runtimeDir);
  const parts = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/.exec(text);
  if (parts === null) return `"${text}" is not "host:port", "[v6]:port" or "unix:PATH"`;
  const host = parts[1] ?? parts[2] ?? '';
  const port = Number(parts[3]);
  if (port > 65_535) return `"${text}": port ${port} is above 65535`;
  return { kind: 'tcp', host, port, loopback: isLoopback(host) };
}

function parseUnix(written: string, runtimeDir: string): ListenAddress | string {
  // gRPC also writes unix:///absolute/path.
  const path = written.startsWith('///') ? written.slice(2) : written;
  if (path === '') return '"unix:" names no path';
  const full = path.startsWith('/') ? path : `${runtimeDir}/${path}`;
  const bytes = new TextEncoder().encode(full).length;
  if (bytes > MAX_SOCKET_PATH_BYTES) {
    return `"${full}" has ${bytes} bytes; a Unix socket's path has at most ${MAX_SOCKET_PATH_BYTES}`;
  }
  return { kind: 'unix', path: full };
}

/** Judged by the address itself; of the names only localhost, since any other may resolve to anything tomorrow. */
export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === 'localhost') return true;
  if (/^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)) return true;
  return /^(?:0{1,4}:){1,7}0{0,3}1$|^::(?:0{0,3})1$/.test(host);
}

export function isOwnMachine(address: ListenAddress): boolean {
  return address.kind === 'unix' || address.loopback;
}

/** As it is written in the configuration and in gRPC's own address syntax. */
export function showListen(address: ListenAddress): string {
  if (address.kind === 'unix') return `unix:${address.path}`;
  return address.host.includes(':') ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}
