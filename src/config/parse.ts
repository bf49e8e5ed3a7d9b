/** TOML object and environment to the complete Config, or every fault at once. Pure. */
import type { Config, ListenAddress } from './config.ts';
import { type Key, keys, reservedVariables, type Value, variableOf } from './keys.ts';
import type { LineConfig } from './line-config.ts';
import { parseListen, showListen } from './listen.ts';
import { fromEnvironment, judge, nearest } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Fault {
  /** The key's path, or the variable's name where that is what is wrong. */
  readonly path: string;
  readonly message: string;
}

type Source = 'file' | 'environment' | 'default';

export interface Setting {
  readonly value: Value;
  readonly source: Source;
}

export interface Parsed {
  /** Complete also when there are faults: a faulty key has its default, so that the rest can be judged too. */
  readonly config: Config;
  readonly settings: ReadonlyMap<string, Setting>;
  readonly faults: readonly Fault[];
}

export function parseConfig(file: Readonly<Record<string, unknown>>, env: Environment): Parsed {
  const faults: Fault[] = [];
  const inFile = new Map<string, unknown>();
  flatten(file, '', inFile, faults);
  unknownVariables(env, faults);
  const settings = new Map<string, Setting>();
  for (const key of keys) settings.set(key.path, settle(key, inFile, env, faults));
  const config = assemble(settings, faults);
  crossCheck(config, settings, faults);
  return { config, settings, faults };
}

const sections = new Set(keys.flatMap((key) => parents(key.path)));

/** serial.line.port: serial, serial.line. */
function parents(path: string): string[] {
  const parts = path.split('.');
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('.'));
}

function flatten(
  table: Readonly<Record<string, unknown>>,
  prefix: string,
  into: Map<string, unknown>,
  faults: Fault[],
) {
  for (const [name, value] of Object.entries(table)) {
    const path = prefix + name;
    if (sections.has(path)) {
      if (isTable(value)) flatten(value, `${path}.`, into, faults);
      else faults.push({ path, message: `is a section: write [${path}]` });
    } else if (keys.some((key) => key.path === path)) {
      into.set(path, value);
    } else {
      const what = isTable(value) ? 'no such section' : 'no such key';
      faults.push({ path, message: what + suggestion(path, isTable(value) ? [...sections] : keys.map((k) => k.path)) });
    }
  }
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  // Dates of TOML and lists are objects too, but not plain ones.
  return typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

function suggestion(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}

function unknownVariables(env: Environment, faults: Fault[]): void {
  const known = [...keys.map(variableOf), ...reservedVariables];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('LINESIDE_') || known.includes(name)) continue;
    faults.push({ path: name, message: `no such variable${suggestion(name, known)}` });
  }
}

function settle(key: Key, inFile: ReadonlyMap<string, unknown>, env: Environment, faults: Fault[]): Setting {
  const variable = variableOf(key);
  const text = env[variable];
  if (text !== undefined) {
    const judged = fromEnvironment(key, text);
    if ('value' in judged) return { value: judged.value, source: 'environment' };
    faults.push({ path: variable, message: `${judged.fault} (${key.path})` });
  } else if (inFile.has(key.path)) {
    const judged = judge(key, inFile.get(key.path));
    if ('value' in judged) return { value: judged.value, source: 'file' };
    faults.push({ path: key.path, message: judged.fault });
  }
  return fallback(key, env);
}

function fallback(key: Key, env: Environment): Setting {
  if (key.kind === 'text' && key.systemd !== undefined) {
    // systemd gives a list, separated by colons, where the unit names several directories.
    const directory = env[key.systemd]?.split(':')[0];
    if (directory?.startsWith('/')) return { value: directory, source: 'environment' };
  }
  return { value: key.default, source: 'default' };
}

function assemble(settings: ReadonlyMap<string, Setting>, faults: Fault[]): Config {
  const at = (path: string): Value => settings.get(path)?.value ?? '';
  const text = (path: string): string => String(at(path));
  const number = (path: string): number => Number(at(path));
  const list = (path: string): readonly string[] => {
    const value = at(path);
    return typeof value === 'object' ? value : [];
  };
  return {
    data: { dir: text('data.dir'), runtimeDir: text('data.runtime_dir') },
    serial: {
      extraPorts: list('serial.extra_ports'),
      simulate: at('serial.simulate') === true,
      atStart: oneOf(text('serial.at_start'), ['resume', 'closed', 'open']),
      line: assembleLine(text, number),
      maxPayloadBytes: number('serial.max_payload_bytes'),
      rxBufferBytes: number('serial.rx_buffer_bytes'),
      rxBufferPackets: number('serial.rx_buffer_packets'),
      rxGapMs: at('serial.rx_gap_ms') === 'auto' ? undefined : number('serial.rx_gap_ms'),
      txQueuePackets: number('serial.tx_queue_packets'),
      txQueueBytes: number('serial.tx_queue_bytes'),
      writeTimeoutMs: number('serial.write_timeout_ms'),
    },
    log: {
      commitMs: number('log.commit_ms'),
      maxBytes: number('log.max_bytes'),
      maxAgeDays: number('log.max_age_days'),
      queueBytes: number('log.queue_bytes'),
      tailBytes: number('log.tail_bytes'),
    },
    grpc: {
      listen: addresses(list('grpc.listen'), text('data.runtime_dir'), faults),
      insecure: at('grpc.insecure') === true,
      maxStreamsPerConnection: number('grpc.max_streams_per_connection'),
      maxSubscribers: number('grpc.max_subscribers'),
      keepaliveS: number('grpc.keepalive_s'),
    },
    tls: {
      certFile: text('tls.cert_file'),
      keyFile: text('tls.key_file'),
      clientCaFile: text('tls.client_ca_file'),
    },
    auth: {
      tokensFile: text('auth.tokens_file'),
      operatorCerts: list('auth.operator_certs'),
      viewerCerts: list('auth.viewer_certs'),
    },
  };
}

function assembleLine(text: (path: string) => string, number: (path: string) => number): LineConfig | undefined {
  const portName = text('serial.line.port');
  if (portName === '') return undefined;
  const parities = ['none', 'even', 'odd', 'mark', 'space'];
  const stops = ['1', '1.5', '2'];
  return {
    portName,
    baudRate: number('serial.line.baud_rate'),
    dataBits: oneOf(number('serial.line.data_bits'), [5, 6, 7, 8]),
    parity: oneOf(parities.indexOf(text('serial.line.parity')), [0, 1, 2, 3, 4]),
    stopBits: oneOf(stops.indexOf(text('serial.line.stop_bits')), [0, 1, 2]),
    packetSize: number('serial.line.packet_size'),
  };
}

/** Narrows a value that its key's limits have already been held to. */
function oneOf<const T extends string | number>(value: string | number, choices: readonly [T, ...T[]]): T {
  return choices.find((choice) => choice === value) ?? choices[0];
}

function addresses(written: readonly string[], runtimeDir: string, faults: Fault[]): ListenAddress[] {
  const found: ListenAddress[] = [];
  for (const text of written) {
    const address = parseListen(text, runtimeDir);
    if (typeof address === 'string') faults.push({ path: 'grpc.listen', message: address });
    else if (found.some((other) => showListen(other) === showListen(address) && !text.endsWith(':0')))
      faults.push({ path: 'grpc.listen', message: `${showListen(address)} is listed twice` });
    else found.push(address);
  }
  return found;
}

/** What no key can say by itself: [broken, path, message]. */
function crossCheck(config: Config, settings: ReadonlyMap<string, Setting>, faults: Fault[]): void {
  const { serial, grpc, tls, auth } = config;
  const dataBits = settings.get('serial.line.data_bits')?.value;
  const oneAndAHalf = settings.get('serial.line.stop_bits')?.value === '1.5';
  const packetSize = serial.line?.packetSize ?? 0;
  const hasCert = tls.certFile !== '';
  const hasKey = tls.keyFile !== '';
  const hasCa = tls.clientCaFile !== '';
  const namedCerts = auth.operatorCerts.length + auth.viewerCerts.length;
  const rules: readonly [broken: boolean, path: string, message: string][] = [
    [
      serial.atStart === 'open' && serial.line === undefined,
      'serial.line.port',
      'must name a port, since serial.at_start is "open"',
    ],
    [
      oneAndAHalf && dataBits !== 5,
      'serial.line.stop_bits',
      `1.5 stop bits exist with 5 data bits only, not with ${String(dataBits)}`,
    ],
    [
      packetSize > serial.maxPayloadBytes,
      'serial.line.packet_size',
      'must not be above serial.max_payload_bytes: nothing could be sent',
    ],
    [
      serial.txQueueBytes < serial.maxPayloadBytes,
      'serial.tx_queue_bytes',
      `must be at least serial.max_payload_bytes (${serial.maxPayloadBytes})`,
    ],
    [grpc.listen.length === 0 && !hasFault(faults, 'grpc.listen'), 'grpc.listen', 'must name at least one address'],
    [hasCert && !hasKey, 'tls.key_file', 'must be set, since tls.cert_file is'],
    [hasKey && !hasCert, 'tls.cert_file', 'must be set, since tls.key_file is'],
    [hasCa && !hasCert, 'tls.cert_file', 'must be set, since tls.client_ca_file is: client certificates need TLS'],
    [
      namedCerts > 0 && !hasCa,
      'tls.client_ca_file',
      'must be set, since auth.operator_certs or auth.viewer_certs names certificates',
    ],
  ];
  for (const [broken, path, message] of rules) if (broken) faults.push({ path, message });
}

function hasFault(faults: readonly Fault[], path: string): boolean {
  return faults.some((fault) => fault.path === path);
}
