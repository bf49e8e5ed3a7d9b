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
  readonly profile?: string;
}

/** A box by name, as the user keeps it. */
export interface Profile extends Omit<ConnectionOptions, 'socket' | 'config' | 'profile' | 'host'> {
  /** Its port is the line's. */
  readonly host: string;
  readonly httpPort?: number;
  /** Of the line: 9600,7E1. */
  readonly settings?: string;
  /** For `fleet`: "line=3". */
  readonly tags?: readonly string[];
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

/** What stands behind the options: the environment or a profile, never a mixture of both. */
interface Source {
  readonly base: Partial<Profile> & Pick<ConnectionOptions, 'socket'>;
  /** It says where the line is and where the hub is. */
  readonly isWholeBox: boolean;
  readonly profile?: Profile;
}

/** The profile of a name, of the default without one; undefined: there is no default. Throws if there is none of the name. */
type FindProfile = (name: string | undefined) => Profile | undefined;

/** The first that names a service: options, environment, default profile, and none: this machine. */
export function sourceOf(options: ConnectionOptions, env: Env, face: Face, find: FindProfile): Source {
  const { socket, config, host, profile } = options;
  if (profile !== undefined) {
    if ((socket ?? config) === undefined) return profileSource(find(profile));
    throw usageFailure('--profile and --socket or --config name two services', 'Give one of them.');
  }
  const trust = {
    ca: filled(env['LINESIDE_CA']),
    fingerprint: filled(env['LINESIDE_FINGERPRINT']),
    tokenFile: filled(env['LINESIDE_TOKEN_FILE']),
  };
  if ((socket ?? host) !== undefined) return { base: defined(trust), isWholeBox: false };
  if (config !== undefined) return { base: {}, isWholeBox: true };
  const [named, second] = [face.socketVariable, 'LINESIDE_HOST', 'LINESIDE_PROFILE'].filter((name) =>
    filled(env[name]),
  );
  if (second !== undefined) {
    throw usageFailure(
      `${named} and ${second} name two services`,
      'Set one of them, or give --socket, --host or --profile.',
    );
  }
  const given = env[named ?? ''] ?? '';
  if (named === 'LINESIDE_HOST') return { base: defined({ ...trust, host: given }), isWholeBox: false };
  if (named === 'LINESIDE_PROFILE') return profileSource(find(given));
  const [line, hub] = [lineFace, hubFace].map(({ socketVariable }) => filled(env[socketVariable]));
  const isWholeBox = line === undefined || hub !== undefined;
  if (named !== undefined) return { base: { socket: given }, isWholeBox };
  // The socket of the other interface: this machine is meant.
  return (line ?? hub) === undefined ? profileSource(find(undefined)) : { base: {}, isWholeBox };
}

function profileSource(profile: Profile | undefined): Source {
  return profile === undefined ? { base: {}, isWholeBox: true } : { base: profile, isWholeBox: true, profile };
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

/** The endpoint that options and what stands behind them name, or undefined: the socket of the configuration then. */
export function chosenEndpoint(options: ConnectionOptions, source: Source, face: Face): Endpoint | undefined {
  const { base } = source;
  if (options.socket !== undefined && options.host !== undefined) {
    throw usageFailure('--socket and --host name two services', 'Give one of them.');
  }
  if (options.socket !== undefined) return { kind: 'unix', path: options.socket };
  const host = options.host ?? (base.host === undefined ? undefined : hostFor(face, base));
  if (host !== undefined) return tcpEndpoint(host, face, options, source);
  const only = (['tls', 'plaintext', 'ca', 'tokenFile', 'cert', 'key', 'serverName', 'fingerprint'] as const).find(
    (name) => options[name],
  );
  if (only !== undefined) {
    throw usageFailure('options for TLS and tokens go with --host or --profile', 'Give --host HOST[:PORT].');
  }
  return base.socket === undefined ? undefined : { kind: 'unix', path: base.socket };
}

/** The port in it is the line's. */
export function hostFor(face: Face, { host: text = '', httpPort }: Partial<Profile>): string {
  if (face === lineFace) return text;
  const { host } = parseHost(text, face.defaultPort);
  return `${host.includes(':') ? `[${host}]` : host}${httpPort === undefined ? '' : `:${httpPort}`}`;
}

/** `base` holds where the options say nothing. */
export function tcpEndpoint(
  text: string,
  face: Face,
  options: Partial<Profile>,
  { base, profile = {} }: Pick<Source, 'base'> & { readonly profile?: Partial<Profile> },
): Extract<Endpoint, { kind: 'tcp' }> {
  const { tokenFile } = options;
  const local = isLoopback(parseHost(text, face.defaultPort).host);
  // Variables alone choose no TLS: they may be set for a shell in which the service of this machine is asked too.
  const secure = choosesTls(options) ?? choosesTls(profile) ?? !local;
  if (!secure && !local && tokenFile !== undefined) {
    throw usageFailure('a token would cross the network readable by all', 'Drop --plaintext, or --token-file.');
  }
  const { host, port } = parseHost(text, secure ? face.securePort : face.defaultPort);
  const token = secure || local ? (tokenFile ?? base.tokenFile) : undefined;
  return { kind: 'tcp', host, port, tls: secure ? tlsFiles(options, base) : undefined, tokenFile: token };
}

/** undefined: neither TLS nor plaintext is asked for. */
function choosesTls({ plaintext, tls, ca, cert, key, fingerprint }: Partial<Profile>): boolean | undefined {
  if ((cert === undefined) !== (key === undefined)) throw usageFailure('--cert and --key go together', 'Give both.');
  const isTls = tls === true || (ca ?? cert ?? fingerprint) !== undefined;
  if (plaintext === true && isTls) {
    throw usageFailure('--plaintext and TLS options exclude each other', 'Drop --plaintext.');
  }
  return plaintext === true ? false : isTls || undefined;
}

function tlsFiles(options: Partial<Profile>, base: Partial<Profile>): TlsFiles {
  const { serverName, ca, fingerprint } = options;
  if (fingerprint !== undefined && (ca ?? serverName) !== undefined) {
    throw usageFailure(
      '--fingerprint alone selects the trusted certificate',
      'Drop --ca and --server-name, or --fingerprint.',
    );
  }
  // A fingerprint, or what is given beside it: the options' word on whom to trust stands instead of the one behind them.
  const isGiven = (fingerprint ?? ca ?? serverName) !== undefined;
  const pin = fingerprint ?? (isGiven ? undefined : base.fingerprint);
  const { cert, key } = options.cert === undefined ? base : options;
  const found = { cert, key, serverName: serverName ?? base.serverName };
  if (pin !== undefined) return { ...found, ca: undefined, fingerprint: givenFingerprint(pin) };
  return { ...found, ca: ca ?? base.ca, fingerprint: undefined };
}

/** box, box:50051, 192.0.2.1:50051, ::1, [::1]:50051 */
export function parseHost(text: string, defaultPort: number, leastPort = 1) {
  const match = /^\[([0-9a-f:.%]+)\](?::(\d{1,5}))?$/i.exec(text) ?? /^([^:\s/[\]]+)(?::(\d{1,5}))?$/.exec(text);
  const bare = match === null && /^[0-9a-f]*:[0-9a-f:.]+$/i.test(text);
  const host = bare ? text : match?.[1];
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (host === undefined || port < leastPort || port > 65_535) {
    throw usageFailure(`"${text}" is not a host`, 'Write HOST, HOST:PORT or [IPV6]:PORT.');
  }
  return { host, port };
}

export function isLoopback(host: string): boolean {
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
