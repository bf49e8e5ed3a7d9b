/** Where the service is: from options, environment and the configuration's socket to one endpoint. Pure. */
import { usageFailure } from '../failure.ts';

/** The connection options of every command, as commander names them. */
export interface ConnectionOptions {
  readonly socket?: string;
  readonly host?: string;
  readonly tls?: boolean;
  readonly plaintext?: boolean;
  readonly ca?: string;
  readonly tokenFile?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly serverName?: string;
  readonly fingerprint?: string;
  readonly config?: string;
}

/** `fingerprint`: of the one authority to trust, instead of `ca`: 64 lower-case digits. */
type TlsFiles = { readonly [Name in 'ca' | 'cert' | 'key' | 'serverName' | 'fingerprint']: string | undefined };

export type Endpoint =
  | { readonly kind: 'unix'; readonly path: string }
  | {
      readonly kind: 'tcp';
      readonly host: string;
      readonly port: number;
      /** undefined: plaintext. */
      readonly tls: TlsFiles | undefined;
      readonly tokenFile: string | undefined;
    };

/** What a TLS connection is made with: the files, read. */
export interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
  readonly serverName: string | undefined;
  /** `ca` is the one authority of that box alone: what name its certificate is for does not matter. */
  readonly isPinned: boolean;
}

/** One of the two interfaces of the service. The environment's host serves both; its port is the line's. */
export interface Face {
  /** The service's own default, for this machine. */
  readonly defaultPort: number;
  /** Where a box answers other machines, over TLS. */
  readonly securePort: number;
  readonly socketVariable: 'LINESIDE_SOCKET' | 'LINESIDE_HTTP_SOCKET';
  /** Of the configuration: its listen names the addresses. */
  readonly section: 'grpc' | 'http';
  readonly alpn: 'h2' | 'http/1.1';
  /** What systemd calls the process behind it. */
  readonly unit: string;
}

/** The line: gRPC. */
export const lineFace: Face = {
  defaultPort: 50_051,
  securePort: 50_051,
  socketVariable: 'LINESIDE_SOCKET',
  section: 'grpc',
  alpn: 'h2',
  unit: 'lineside',
};
/** The hub: reference data, outbox. */
export const hubFace: Face = {
  defaultPort: 8080,
  securePort: 8443,
  socketVariable: 'LINESIDE_HTTP_SOCKET',
  section: 'http',
  alpn: 'http/1.1',
  unit: 'lineside-hub',
};

export type Env = Readonly<Record<string, string | undefined>>;

/** The endpoint that options and environment name, or undefined: the socket of the configuration then. */
export function chosenEndpoint(options: ConnectionOptions, env: Env, face: Face): Endpoint | undefined {
  if (options.socket !== undefined && options.host !== undefined) {
    throw usageFailure('--socket and --host name two services', 'Give one of them.');
  }
  if (options.socket !== undefined) return { kind: 'unix', path: options.socket };
  if (options.host !== undefined) return tcpEndpoint(options.host, face, options, env);
  const only = (['tls', 'plaintext', 'ca', 'tokenFile', 'cert', 'key', 'serverName', 'fingerprint'] as const).find(
    (name) => options[name],
  );
  const host = filled(env['LINESIDE_HOST']);
  const socket = filled(env[face.socketVariable]);
  if (options.config === undefined && host !== undefined) {
    if (socket === undefined) return tcpEndpoint(environmentHost(host, face), face, options, env);
    throw usageFailure(
      `${face.socketVariable} and LINESIDE_HOST name two services`,
      'Set one of them, or give --socket or --host.',
    );
  }
  if (only !== undefined) throw usageFailure('options for TLS and tokens go with --host', 'Give --host HOST[:PORT].');
  return options.config === undefined && socket !== undefined ? { kind: 'unix', path: socket } : undefined;
}

interface Host {
  readonly host: string;
  readonly port: number;
}

/** Its port is the line's. */
function environmentHost(text: string, face: Face): string {
  if (face === lineFace) return text;
  const { host } = parseHost(text, face.defaultPort);
  return host.includes(':') ? `[${host}]` : host;
}

function tcpEndpoint(text: string, face: Face, options: ConnectionOptions, env: Env): Endpoint {
  const { plaintext, tls, ca, cert, fingerprint, tokenFile } = options;
  if (plaintext === true && (tls ?? ca ?? cert ?? fingerprint) !== undefined) {
    throw usageFailure('--plaintext and TLS options exclude each other', 'Drop --plaintext.');
  }
  const local = isLoopback(parseHost(text, face.defaultPort).host);
  const secure = wantsTls(options) || (!local && plaintext !== true);
  if (!secure && !local && tokenFile !== undefined) {
    throw usageFailure('a token would cross the network readable by all', 'Drop --plaintext, or --token-file.');
  }
  const { host, port } = parseHost(text, secure ? face.securePort : face.defaultPort);
  const token = secure || local ? (tokenFile ?? filled(env['LINESIDE_TOKEN_FILE'])) : undefined;
  return { kind: 'tcp', host, port, tls: secure ? tlsFiles(options, env) : undefined, tokenFile: token };
}

function wantsTls({ tls, ca, cert, key, fingerprint }: ConnectionOptions): boolean {
  if ((cert === undefined) !== (key === undefined)) throw usageFailure('--cert and --key go together', 'Give both.');
  return tls === true || ca !== undefined || cert !== undefined || fingerprint !== undefined;
}

function tlsFiles(options: ConnectionOptions, env: Env): TlsFiles {
  const { cert, key, serverName, ca, fingerprint } = options;
  if (fingerprint !== undefined && (ca ?? serverName) !== undefined) {
    throw usageFailure(
      '--fingerprint alone selects the trusted certificate',
      'Drop --ca and --server-name, or --fingerprint.',
    );
  }
  // What is given on the command line stands instead of either variable.
  const isGiven = (fingerprint ?? ca ?? serverName) !== undefined;
  const pin = fingerprint ?? (isGiven ? undefined : filled(env['LINESIDE_FINGERPRINT']));
  const found = { cert, key, serverName };
  if (pin !== undefined) return { ...found, ca: undefined, fingerprint: givenFingerprint(pin) };
  return { ...found, ca: ca ?? filled(env['LINESIDE_CA']), fingerprint: undefined };
}

/** box, box:50051, 192.0.2.1:50051, ::1, [::1]:50051 */
export function parseHost(text: string, defaultPort: number): Host {
  const match = /^\[([0-9a-f:.%]+)\](?::(\d{1,5}))?$/i.exec(text) ?? /^([^:\s/[\]]+)(?::(\d{1,5}))?$/.exec(text);
  const bare = match === null && /^[0-9a-f]*:[0-9a-f:.]+$/i.test(text);
  const host = bare ? text : match?.[1];
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (host === undefined || port < 1 || port > 65_535) {
    throw usageFailure(`"${text}" is not a host`, 'Write HOST, HOST:PORT or [IPV6]:PORT.');
  }
  return { host, port };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}

export function endpointText(endpoint: Endpoint): string {
  if (endpoint.kind === 'unix') return endpoint.path;
  return endpoint.host.includes(':') ? `[${endpoint.host}]:${endpoint.port}` : `${endpoint.host}:${endpoint.port}`;
}

function filled(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}

// SHA-256 of a certificate (DER) as people compare it: hexadecimal with colons.

/** As it is kept: 64 lower-case digits. Colons and spaces are for the eye; undefined: it is none. */
export function parseFingerprint(text: string): string | undefined {
  const digits = text.replace(/[:\s]/g, '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(digits) ? digits : undefined;
}

/** Of an option or a variable. */
function givenFingerprint(text: string): string {
  const found = parseFingerprint(text);
  if (found !== undefined) return found;
  throw usageFailure(
    'the fingerprint is not one of SHA-256',
    'Write the 64 hexadecimal digits that the box shows (lineside identity show); colons are optional.',
  );
}

/** AB:CD:..., as openssl prints it. */
export function fingerprintText(digits: string): string {
  return (digits.toUpperCase().match(/../g) ?? []).join(':');
}
