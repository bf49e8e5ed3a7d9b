/** The compiled daemon as a process of its own, with a configuration of its own. */
import type { ChildProcess } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { serviceEnvironment } from '../service-environment.ts';
import { GrpcClient } from './grpc-client.ts';
import { freePort } from './peers/peers.ts';
import { childrenOf, NODE, ROOT, removeDirectory, sleep, start, stop, temporaryDirectory } from './processes.ts';

export interface LinesideOptions {
  readonly serial?: Readonly<Record<string, number>>;
  readonly log?: Readonly<Record<string, number>>;
  /** A command that runs the daemon as its only child (strace, or a shell that reads its I/O afterwards). */
  readonly wrapper?: readonly string[];
  /** Another run's data directory, kept afterwards. */
  readonly dataDir?: string;
  readonly nodeOptions?: readonly string[];
}

export interface Lineside {
  readonly pid: number;
  readonly process: ChildProcess;
  readonly address: string;
  readonly client: GrpcClient;
  readonly dataDir: string;
  /** Opens the port, 8N1. */
  open(slavePath: string, baud: number): Promise<void>;
  close(): Promise<void>;
}

const START_LIMIT_MS = 20_000;
/** Short against the 50 ms that Node alone takes. */
const LOOK_MS = 2;
/** BENCH_BUILD names another build than build/: to hold two against each other. */
const MAIN = join(process.env['BENCH_BUILD'] ?? join(ROOT, 'build'), 'main.js');

export function requireBuild(): void {
  if (!existsSync(MAIN)) throw new Error('build/main.js is missing: run scripts/build first');
}

export interface Prepared {
  readonly args: readonly string[];
  readonly address: string;
  readonly dataDir: string;
  readonly dir: string;
}

export async function prepare(options: LinesideOptions = {}): Promise<Prepared> {
  requireBuild();
  const dir = temporaryDirectory();
  const dataDir = options.dataDir ?? join(dir, 'data');
  const address = `127.0.0.1:${await freePort()}`;
  const section = (name: string, values: Readonly<Record<string, number>> = {}): string =>
    [`[${name}]`, ...Object.entries(values).map(([key, value]) => `${key} = ${value}`)].join('\n');
  const toml = [
    section('data'),
    `dir = "${dataDir}"`,
    `runtime_dir = "${join(dir, 'run')}"`,
    section('serial', options.serial),
    'extra_ports = ["/dev/pts/*"]',
    'at_start = "closed"',
    section('log', options.log),
    section('grpc'),
    `listen = ["${address}"]`,
    '',
  ].join('\n');
  const config = join(dir, 'lineside.toml');
  writeFileSync(config, toml);
  return {
    args: [...(options.nodeOptions ?? []), MAIN, 'serve', '--role', 'line', '--config', config],
    address,
    dataDir,
    dir,
  };
}

export async function startLineside(options: LinesideOptions = {}): Promise<Lineside> {
  const { args, address, dataDir, dir } = await prepare(options);
  const [command = NODE, ...rest] = [...(options.wrapper ?? []), NODE, ...args];
  const heard = process.env['BENCH_DEBUG'] === undefined ? 'ignore' : 'inherit';
  const output = options.wrapper === undefined ? heard : 'pipe';
  const child = start(command, rest, { stdio: ['ignore', output, heard], env: environment() });
  await listening(address, child);
  const client = new GrpcClient(address);
  await client.ready();
  const pid = options.wrapper === undefined ? child.pid : await onlyChild(child.pid ?? 0);
  if (pid === undefined) throw new Error('lineside did not start');
  return {
    pid,
    process: child,
    address,
    client,
    dataDir,
    open: (slavePath, baud) => client.open(slavePath, baud),
    async close() {
      client.close();
      await stop(child, pid);
      removeDirectory(dir);
    },
  };
}

/** Asks by TCP: a gRPC channel would wait a second after its first refused attempt. Listening is the last step of the start. */
export async function listening(address: string, child: ChildProcess): Promise<void> {
  const port = Number(address.slice(address.lastIndexOf(':') + 1));
  const end = performance.now() + START_LIMIT_MS;
  while (!(await accepts(port))) {
    if (child.exitCode !== null || performance.now() > end) {
      throw new Error('lineside did not start: BENCH_DEBUG=1 shows what it says');
    }
    await sleep(LOOK_MS);
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Nothing of the caller's own LINESIDE_ settings; the compile cache as scripts/lineside has it. */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('LINESIDE_'));
  return { ...Object.fromEntries(kept), ...serviceEnvironment(), NODE_COMPILE_CACHE: join(ROOT, '.cache', 'compile') };
}

async function onlyChild(parent: number): Promise<number> {
  await until('the wrapped daemon', () => childrenOf(parent).length > 0);
  return childrenOf(parent)[0] ?? 0;
}
