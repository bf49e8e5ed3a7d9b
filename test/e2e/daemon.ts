/**
 * The compiled daemon as a process of its own, in a directory of its own, for end-to-end tests. Whatever a test does
 * or fails to do, the processes and directories started here are gone when its file ends.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { Channel, ChannelCredentials } from '@grpc/grpc-js';
import { createClient } from 'nice-grpc';
import { parse, stringify } from 'smol-toml';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../src/shared/proto/services.ts';
import { serviceEnvironment } from '../service-environment.ts';

export const ROOT = resolve(import.meta.dirname, '../..');
/** Another build than build/ may be tested: LINESIDE_E2E_BUILD=DIRECTORY. */
export const BUILD = process.env['LINESIDE_E2E_BUILD'] ?? join(ROOT, 'build');
export const MAIN = join(BUILD, 'main.js');
export const NODE = process.execPath;

/** Sections of the configuration file, as in TOML: { serial: { extra_ports: [...], line: { port: ... } } }. */
export type Toml = { readonly [key: string]: string | number | boolean | readonly string[] | readonly number[] | Toml };

export interface DaemonOptions {
  /** What differs from the defaults below: TOML text, or the same as an object. */
  readonly config?: string | Toml;
  readonly env?: Readonly<Record<string, string>>;
  /** A command that runs the daemon: ['strace', '-f', '-o', file], ['ip', 'netns', 'exec', name], ... */
  readonly wrapper?: readonly string[];
  readonly nodeOptions?: readonly string[];
  /** The directory of an earlier daemon: its log and memory are found again. */
  readonly dir?: string;
  /** Default: the line alone. 'both' is what `lineside serve` does: the line, and the hub as its child. */
  readonly role?: 'line' | 'hub' | 'both';
}

export interface Daemon {
  /** Of the daemon itself, also under a wrapper. */
  readonly pid: number;
  readonly process: ChildProcess;
  readonly dir: string;
  readonly dataDir: string;
  readonly configFile: string;
  /** Path of the Unix socket; '' where the configuration listens on none. */
  readonly socket: string;
  /** host:port of the first TCP listener, port 0 resolved; '' where there is none. */
  readonly address: string;
  readonly client: Client;
  /** What it wrote to standard error, line by line. */
  readonly logLines: readonly string[];
  /** The first log line, from the `from`-th on, that matches; waits for it. */
  waitFor(pattern: RegExp, from?: number): Promise<string>;
  /** SIGTERM, and its exit status when it has ended. */
  stop(): Promise<number>;
  /** SIGKILL, and until it has ended. */
  kill(): Promise<void>;
  /** Resolves with the exit status, or the signal's name, when it has ended. */
  readonly ended: Promise<number | string>;
}

export type Client = ReturnType<typeof connectTo>;

const children = new Set<ChildProcess>();
const directories = new Set<string>();
const closers = new Set<() => void>();

/** Typed clients of one channel to "unix:PATH" or "host:port"; `more`: options of the channel. */
export function connectTo(target: string, credentials = ChannelCredentials.createInsecure(), more = {}) {
  // Not createChannel(): it takes the path of a Unix socket for a host and adds a port.
  const options = { 'grpc.max_receive_message_length': 64 * 1024 * 1024, 'grpc.use_local_subchannel_pool': 1, ...more };
  const channel = new Channel(target, credentials, options);
  const close = (): void => {
    closers.delete(close);
    channel.close();
  };
  closers.add(close);
  return {
    serial: createClient(SerialServiceDefinition, channel),
    line: createClient(LineServiceDefinition, channel),
    close,
  };
}

export function temporaryDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-e2e-'));
  directories.add(dir);
  return dir;
}

/** A process in a group of its own that ends with the test file, with all it started. */
export function startProcess(command: string, args: readonly string[], env = environment()): ChildProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env, detached: true });
  children.add(child);
  child.once('close', () => children.delete(child));
  child.on('error', () => children.delete(child));
  return child;
}

/** Nothing of the caller's own LINESIDE_ settings. */
export function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('LINESIDE_') && name !== 'NODE_OPTIONS');
  const cache = { NODE_COMPILE_CACHE: join(ROOT, '.cache', 'compile') };
  // The developer's own profiles name real boxes.
  const profiles = { XDG_CONFIG_HOME: '/nonexistent' };
  return { ...cache, ...Object.fromEntries(kept), ...serviceEnvironment(), ...profiles, ...more };
}

/** Writes the configuration file without starting anything. */
export function writeConfig(dir: string, config: string | Toml = {}): string {
  const defaults: Toml = {
    data: { dir: join(dir, 'data'), runtime_dir: join(dir, 'run') },
    // The machine's own time sync is no part of a test.
    device: { time_sync_file: '' },
    serial: { at_start: 'closed' },
    grpc: { listen: ['127.0.0.1:0', 'unix:grpc.sock'] },
    http: { listen: ['127.0.0.1:0', 'unix:http.sock'] },
    auth: { tokens_file: join(dir, 'tokens.json') },
  };
  const given = typeof config === 'string' ? (parse(config) as Toml) : config;
  const file = join(dir, 'lineside.toml');
  writeFileSync(file, stringify(merged(defaults, given)));
  return file;
}

/** Runs the daemon until it exits: for starts that are to be refused. */
export async function runDaemonToEnd(options: DaemonOptions = {}): Promise<{ status: number | string; log: string }> {
  const { child, logLines, ended } = launch(options);
  try {
    return { status: await within('the daemon exits', ended), log: logLines.join('\n') };
  } finally {
    killGroup(child);
  }
}

export async function startDaemon(options: DaemonOptions = {}): Promise<Daemon> {
  const { child, dir, configFile, logLines, ended, waitFor } = launch(options);
  try {
    const { socket, address } = listening(await waitFor(/ info ready /));
    const pid = await until('the pid of the daemon', () => daemonPid(child.pid));
    const client = connectTo(socket === '' ? address : `unix:${socket}`);
    if (socket !== '') await untilLogOpened(client);
    const end = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<number | string> => {
      signalPid(pid, signal);
      const how = await within(`the daemon ends after ${signal}`, ended);
      client.close();
      return how;
    };
    return {
      pid,
      process: child,
      dir,
      dataDir: join(dir, 'data'),
      configFile,
      socket,
      address,
      client,
      logLines,
      ended,
      waitFor,
      async stop() {
        const how = await end('SIGTERM');
        if (typeof how === 'string') throw new Error(`the daemon was ended by ${how}:\n${logLines.join('\n')}`);
        return how;
      },
      kill: async () => void (await end('SIGKILL')),
    };
  } catch (error) {
    killGroup(child);
    throw error;
  }
}

/** The service is ready without its log when a busy disk lets that wait; a test that stores would be refused. */
export async function untilLogOpened({ line }: Client): Promise<void> {
  await until('the log is open, or has failed to', async () => {
    const { log } = await line.getStatus({});
    return log?.error !== 'the log is being opened';
  });
}

/** The Unix socket and the first TCP address of a "ready" line; '' where there is none. */
export function listening(ready: string): { socket: string; address: string } {
  const found = /listen=(?:"([^"]*)"|(\S+))/.exec(ready);
  const addresses = (found?.[1] ?? found?.[2] ?? '').split(' ');
  const socket = addresses.find((one) => one.startsWith('unix:'))?.slice('unix:'.length) ?? '';
  return { socket, address: addresses.find((one) => !one.startsWith('unix:')) ?? '' };
}

/** Starts the compiled daemon and follows its log, without waiting for anything. */
export function launch(options: DaemonOptions) {
  if (!existsSync(MAIN)) throw new Error(`${MAIN} is missing: run scripts/build first`);
  const dir = options.dir ?? temporaryDirectory();
  mkdirSync(dir, { recursive: true });
  const earlier = join(dir, 'lineside.toml');
  const kept = options.config === undefined && existsSync(earlier);
  const configFile = kept ? earlier : writeConfig(dir, options.config);
  const { role = 'line' } = options;
  const roleArgs = role === 'both' ? [] : ['--role', role];
  const args = [...(options.nodeOptions ?? []), MAIN, 'serve', '--config', configFile, ...roleArgs];
  const [command = NODE, ...rest] = [...(options.wrapper ?? []), NODE, ...args];
  const child = startProcess(command, rest, environment(options.env));
  const logLines: string[] = [];
  if (child.stderr !== null) createInterface({ input: child.stderr }).on('line', (line) => logLines.push(line));
  child.stdout?.resume();
  let over = false;
  const ended = once(child, 'close').then(([code, signal]: (number | string | null)[]) => {
    over = true;
    return code ?? signal ?? 'unknown';
  });
  // Checked by the caller that waits for it.
  ended.catch(() => {});
  const waitFor = async (pattern: RegExp, from = 0): Promise<string> => {
    const look = (): string | undefined => {
      const found = logLines.slice(from).find((line) => pattern.test(line));
      if (found === undefined && over) throw new Error('the daemon has ended');
      return found;
    };
    try {
      return await until(`${pattern} in the log of the daemon`, look);
    } catch (error) {
      throw new Error(`${String(error)}, which says:\n${logLines.join('\n')}`, { cause: error });
    }
  };
  return { child, dir, configFile, logLines, ended, waitFor };
}

/** The node process that runs main.js: the child itself, or somewhere below its wrapper. */
export function daemonPid(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined;
  try {
    const [program = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    if (/(^|\/)node$/.test(program) && args.includes(MAIN)) return pid;
    for (const task of readdirSync(`/proc/${pid}/task`)) {
      const below = readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim();
      for (const one of below === '' ? [] : below.split(' ')) {
        const found = daemonPid(Number(one));
        if (found !== undefined) return found;
      }
    }
  } catch {
    // It ended meanwhile.
  }
  return undefined;
}

export function signalPid(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already.
  }
}

export function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined) signalPid(-child.pid, 'SIGKILL');
}

function merged(base: Toml, over: Toml): Toml {
  const result: Record<string, Toml[string]> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const before = result[key];
    result[key] = isTable(before) && isTable(value) ? merged(before, value) : value;
  }
  return result;
}

function isTable(value: Toml[string] | undefined): value is Toml {
  return typeof value === 'object' && !Array.isArray(value);
}

export function cleanUp(): void {
  for (const close of closers) close();
  for (const child of children) killGroup(child);
  children.clear();
  for (const dir of directories) rmSync(dir, { recursive: true, force: true });
  directories.clear();
}

// Hooks of the file itself come first: they run in the order in which they were registered.
setImmediate(() => after(cleanUp));
// A test file that its time limit aborts leaves nothing behind either.
process.once('exit', cleanUp);
