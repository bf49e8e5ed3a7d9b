/** Starts the peers: bare grpc-js, and ser2net as Debian ships it. */
import type { ChildProcess } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import {
  lineReader,
  NODE,
  removeDirectory,
  requireCommand,
  sleep,
  start,
  stop,
  temporaryDirectory,
} from '../processes.ts';

export interface Peer {
  readonly pid: number;
  /** "127.0.0.1:PORT". */
  readonly address: string;
  close(): Promise<void>;
}

export interface Ser2net extends Peer {
  readonly traceBytes: () => number;
  connect(): Promise<Socket>;
}

/** Every read is an entry, or every chunk up to a silence of gapMs. */
export function startBare(slavePath: string, gapMs: number): Promise<Peer> {
  return startPeer(['pty', slavePath, String(gapMs)]);
}

export function startBareMemory(count: number, size: number): Promise<Peer> {
  return startPeer(['memory', String(count), String(size)]);
}

async function startPeer(args: readonly string[]): Promise<Peer> {
  const program = join(import.meta.dirname, 'bare-grpc.ts');
  const child = start(NODE, [program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('no pipe to the bare peer');
  const port = await lineReader(child.stdout)();
  if (port === undefined) throw new Error('the bare peer ended at once');
  return { pid: pidOf(child), address: `127.0.0.1:${port}`, close: () => stop(child) };
}

export function pidOf(child: ChildProcess): number {
  if (child.pid === undefined) throw new Error('the process did not start');
  return child.pid;
}

/** 'tuned': no wait for further characters, large buffers both ways; both trace every byte to a file. */
export async function startSer2net(slavePath: string, baud: number, kind: 'as shipped' | 'tuned'): Promise<Ser2net> {
  requireCommand('ser2net', 'apt-get install --no-install-recommends ser2net');
  const dir = temporaryDirectory();
  const port = await freePort();
  const trace = join(dir, 'trace');
  const config = join(dir, 'ser2net.yaml');
  const tuning = ['    chardelay: false', '    dev-to-net-bufsize: 65536', '    net-to-dev-bufsize: 65536'];
  writeFileSync(
    config,
    [
      '%YAML 1.1',
      '---',
      'connection: &bench',
      `  accepter: tcp,127.0.0.1,${port}`,
      `  connector: serialdev,${slavePath},${baud}n81,local`,
      '  options:',
      `    trace-both: ${trace}`,
      ...(kind === 'tuned' ? tuning : []),
      '',
    ].join('\n'),
  );
  // -n: stay in the foreground; -P: a pid file of its own, so that the system's instance is let alone.
  const child = start('ser2net', ['-n', '-c', config, '-P', join(dir, 'pid')], {
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  const address = `127.0.0.1:${port}`;
  return {
    pid: pidOf(child),
    address,
    traceBytes: () => statSync(trace).size,
    connect: () => connectTo(port),
    async close() {
      await stop(child);
      removeDirectory(dir);
    },
  };
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

async function connectTo(port: number): Promise<Socket> {
  for (let attempt = 0; ; attempt++) {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once('connect', resolve);
        socket.once('error', reject);
      });
      return socket;
    } catch (error) {
      if (attempt === 100) throw error;
      await sleep(50);
    }
  }
}
