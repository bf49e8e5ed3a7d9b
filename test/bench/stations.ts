/** The same line served by lineside and by its peers, each on a PTY of its own with a device at the other end. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Daemon, type DaemonOptions, NODE, startDaemon, type Toml, temporaryDirectory } from '../e2e/daemon.ts';
import { openPort } from '../e2e/faults.ts';
import { freePort } from '../free-port.ts';
import { type OnBytes, receiveLog } from './grpc-lean.ts';
import { lineReader, requireCommand, Skipped, start, stop } from './processes.ts';
import { PtyDriver } from './pty-driver.ts';
import type { Line } from './table.ts';

export interface Peer {
  readonly pid: number;
  /** "127.0.0.1:PORT". */
  readonly address: string;
  readonly close: () => Promise<void>;
}

export interface Station extends Peer {
  readonly name: string;
  readonly driver: PtyDriver;
  /** From now on. */
  readonly receive: (take: OnBytes) => Promise<void>;
}

export interface LinesideStation extends Station {
  readonly daemon: Daemon;
}

export interface LinesideOptions extends Pick<DaemonOptions, 'wrapper' | 'dir'> {
  /** undefined: the default. */
  readonly gapMs?: number | undefined;
}

/** Listens on TCP alone. */
export function lineConfig(gapMs?: number): Toml {
  const gap = gapMs === undefined ? {} : { rx_gap_ms: gapMs };
  return { serial: { extra_ports: ['/dev/pts/*'], ...gap }, grpc: { listen: ['127.0.0.1:0'] } };
}

export function startLine({ gapMs, ...options }: LinesideOptions = {}): Promise<Daemon> {
  return startDaemon({ ...options, config: lineConfig(gapMs) });
}

export async function startLineside(baud: number, options: LinesideOptions = {}): Promise<LinesideStation> {
  const driver = await PtyDriver.open();
  const daemon = await startLine(options);
  await openPort(daemon.client, driver.slavePath, { baudRate: baud });
  const { pid, address } = daemon;
  const peer = { pid, address, close: async () => void (await daemon.stop()) };
  return { ...byGrpc('lineside', driver, peer), daemon };
}

/** Every read is an entry, or every chunk up to a silence of gapMs. */
export async function startBare(gapMs: number): Promise<Station> {
  const driver = await PtyDriver.open();
  return byGrpc('bare grpc-js', driver, await startPeer(['pty', driver.slavePath, gapMs]));
}

export function startBareMemory(count: number, size: number): Promise<Peer> {
  return startPeer(['memory', count, size]);
}

async function startPeer(args: readonly (string | number)[]): Promise<Peer> {
  const child = start(NODE, [join(import.meta.dirname, 'peers/bare-grpc.ts'), ...args], process.env);
  const port = await lineReader(child.stdout)();
  if (port === undefined) throw new Error('the bare peer ended at once');
  return { pid: child.pid, address: `127.0.0.1:${port}`, close: () => stop(child) };
}

function byGrpc(name: string, driver: PtyDriver, peer: Peer): Station {
  const streams: { close(): Promise<void> }[] = [];
  return {
    ...peer,
    name,
    driver,
    async receive(take) {
      const stream = receiveLog(peer.address, false, take);
      streams.push(stream);
      await stream.open;
    },
    async close() {
      for (const stream of streams) await stream.close();
      await peer.close();
      await driver.close();
    },
  };
}

export interface Ser2net extends Station {
  connect(): Promise<Socket>;
}

/** As Debian ships it and tuned, or none and why. */
export async function startSer2nets(baud: number): Promise<{ ser2net: readonly Ser2net[]; missing: string }> {
  try {
    return { ser2net: [await startSer2net('as shipped', baud), await startSer2net('tuned', baud)], missing: '' };
  } catch (error) {
    if (!(error instanceof Skipped)) throw error;
    return { ser2net: [], missing: error.message };
  }
}

/** The line that stands where ser2net's would. */
export function skipped(row: string, missing: string): readonly Line[] {
  return missing === '' ? [] : [{ row, lineside: '', against: missing, ratio: '', aim: '', verdict: 'SKIPPED' }];
}

/** Tuned, with RFC 2217. */
export function startRfc2217Ser2net(baud: number): Promise<Ser2net> {
  return startSer2net('RFC 2217', baud);
}

/** All but 'as shipped': no wait for further characters, large buffers both ways; all trace every byte to a file. */
async function startSer2net(kind: 'as shipped' | 'tuned' | 'RFC 2217', baud: number): Promise<Ser2net> {
  requireCommand('ser2net', 'apt-get install --no-install-recommends ser2net');
  const driver = await PtyDriver.open();
  const dir = temporaryDirectory();
  const port = await freePort();
  const config = join(dir, 'ser2net.yaml');
  const tuning = ['    chardelay: false', '    dev-to-net-bufsize: 65536', '    net-to-dev-bufsize: 65536'];
  writeFileSync(
    config,
    [
      '%YAML 1.1',
      '---',
      'connection: &bench',
      `  accepter: ${kind === 'RFC 2217' ? 'telnet(rfc2217),' : ''}tcp,127.0.0.1,${port}`,
      `  connector: serialdev,${driver.slavePath},${baud}n81,local`,
      '  options:',
      `    trace-both: ${join(dir, 'trace')}`,
      ...(kind === 'as shipped' ? [] : tuning),
      '',
    ].join('\n'),
  );
  // -n: stay in the foreground; -P: a pid file of its own, so that the system's instance is let alone.
  const child = start('ser2net', ['-n', '-c', config, '-P', join(dir, 'pid')]);
  const sockets: Socket[] = [];
  const connected = (): Promise<Socket> =>
    until('ser2net takes a connection', async () => {
      const socket = connect({ host: '127.0.0.1', port, noDelay: true });
      const isOpen = await once(socket, 'connect').catch(() => false);
      if (isOpen !== false) sockets.push(socket);
      return isOpen !== false && socket;
    });
  return {
    name: `ser2net ${kind}`,
    pid: child.pid,
    address: `127.0.0.1:${port}`,
    driver,
    connect: connected,
    async receive(take) {
      (await connected()).on('data', (bytes: Buffer) => take(bytes, 0, bytes.length));
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await stop(child);
      await driver.close();
    },
  };
}

/** Nothing waits to be stored and nothing was lost: what follows a run belongs to its cost. */
export async function allStored({ client }: Daemon): Promise<void> {
  await until('the log to be stored', async () => {
    const { log } = await client.line.getStatus({});
    if (log == null) throw new Error('no log status');
    if (Number(log.lostEntries) > 0) throw new Error(`${String(log.lostEntries)} entries were not stored`);
    return Number(log.pendingEntries) === 0;
  });
}
