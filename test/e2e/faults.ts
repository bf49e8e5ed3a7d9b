/** Shared by the fault tests: the port, the log and the process as seen from outside. */
import { closeSync, constants, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Long from 'long';
import { setExclusive } from '../../src/line/port/linux/tty-ioctl.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import { type Client, type Daemon, startDaemon, type Toml, temporaryDirectory } from './daemon.ts';
import { type NamedPty, namedPty } from './pty.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

export const { LOG_STATE_OK, LOG_STATE_FAILING } = lineside.v1.LogState;
export const { RX, TX } = serial.SerialLogEntry.Direction;

/** 115,200 8N1 unless said otherwise; fails when the answer is not OK. */
export async function openPort(
  client: Client,
  portName: string,
  changes: serial.SerialConfig.$Properties = {},
): Promise<void> {
  const answer = await client.serial.open({ portName, baudRate: 115_200, dataBits: 8, ...changes });
  if (answer.status !== serial.StatusCode.OK) throw new Error(`Open ${portName}: ${answer.error}`);
}

export interface Box {
  readonly daemon: Daemon;
  readonly pty: NamedPty;
}

/** A daemon with an open port; commits soon, so that tests need not wait. `collect`: what the port is sent is kept. */
export async function startBox(config: Toml = {}, dir = temporaryDirectory(), collect = true): Promise<Box> {
  const pty = namedPty(dir, 'port0', collect);
  const { serial: serialSection = {}, log: logSection = {}, ...others } = config as Readonly<Record<string, Toml>>;
  const daemon = await startDaemon({
    dir,
    config: {
      serial: { extra_ports: [pty.portName], ...serialSection },
      log: { commit_ms: 50, ...logSection },
      ...others,
    },
  });
  await openPort(daemon.client, pty.portName);
  return { daemon, pty };
}

/** The same with an echo at the far end of the line. */
export async function startEchoBox(config: Toml = {}, dir?: string): Promise<Box> {
  const box = await startBox(config, dir, false);
  echo(box.pty);
  return box;
}

export function echo(pty: NamedPty): void {
  let written: Promise<unknown> = Promise.resolve();
  pty.onData((bytes) => {
    const copy = Buffer.from(bytes);
    written = written.then(() => pty.write(copy));
  });
}

export async function logStatus(client: Client): Promise<lineside.v1.LogStatus.$Shape> {
  const { log } = await client.line.getStatus({});
  if (log == null) throw new Error('GetStatus without a log');
  return log;
}

/** Every entry that is there now, after the id. */
export async function everythingAfter(client: Client, afterId: number): Promise<lineside.v1.LogEntry.$Shape[]> {
  const found: lineside.v1.LogEntry.$Shape[] = [];
  for await (const { entries } of client.line.readLog({ afterId: Long.fromNumber(afterId, true) }))
    found.push(...entries);
  return found;
}

/** All that was sent to the line, by the log. */
export async function wasSent({ daemon }: Pick<Box, 'daemon'>): Promise<string> {
  const entries = await everythingAfter(daemon.client, 0);
  return entries
    .flatMap(({ entry }) => (entry?.dir === TX ? [Buffer.from(entry.rawData ?? []).toString('latin1')] : []))
    .join('');
}

/** A technician's command to this daemon. */
export function cli({ socket }: Daemon, ...args: readonly string[]): Promise<CliOutcome> {
  return runCli(args, { env: { LINESIDE_SOCKET: socket } });
}

export function residentMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(join('/proc', String(pid), 'status'), 'utf8'))?.[1];
  return Number(kib ?? Number.NaN) / 1024;
}

/**
 * What the kernel does with a real port when its last user is killed: the exclusive use ends. The tests' own end keeps a
 * pseudo-terminal alive, and with it the flag.
 */
export function endExclusiveUse(devicePath: string): void {
  const fd = openSync(devicePath, constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
  try {
    setExclusive(fd, false);
  } finally {
    closeSync(fd);
  }
}
