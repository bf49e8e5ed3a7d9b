/** A file over the monitor's session: as it is, or by lrzsz, whose programs speak XMODEM, YMODEM and ZMODEM. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { systemCode } from '../../shared/base/errors.ts';
import { CliFailure } from '../failure.ts';
import { liveText } from '../output/hex.ts';
import { counted } from '../output/numbers.ts';
import { fixedPieces, type Line, openPieces, pieceBytes, pieces } from './packets.ts';

interface Sending {
  readonly path: string;
  readonly line: Line;
  /** Aborted with what ends the transfer. */
  readonly stop: AbortSignal;
  /** Resolves with the answer of the box. */
  send(packet: Uint8Array): Promise<void>;
  /** Hands over what the line receives from now on, instead of showing it; undefined ends that. */
  divert(take: ((data: Uint8Array) => void) | undefined): void;
  progress(text: string): void;
}

/** Answers how it went; throws CliFailure, or the reason of `stop`. */
export type SendFile = (sending: Sending) => Promise<string>;

/**
 * Sends a piece and waits for the answer to the one before: one is there while the box writes another, so that the line does not pause,
 * and a cancelled transfer ends soon. Without a piece: waits for the last.
 */
function sender(sending: Sending, stop: AbortSignal): (piece?: Uint8Array) => Promise<void> {
  const stopped = once(stop, 'abort').catch(() => undefined);
  let before: Promise<unknown> = Promise.resolve();
  return async (piece) => {
    const now = piece && sending.send(piece);
    now?.catch(() => undefined);
    await Promise.race([before, stopped]);
    stop.throwIfAborted();
    before = now ?? before;
  };
}

export const sendRaw: SendFile = async (sending) => {
  const { path, line, stop } = sending;
  const source = await openPieces(resolve(path), line.packetSize);
  const send = sender(sending, stop);
  let bytes = 0;
  try {
    for await (const piece of fixedPieces(source, pieceBytes(line), stop)) {
      await send(piece);
      bytes += piece.length;
      sending.progress(`\r${counted(bytes, 'byte')}`);
    }
  } finally {
    source.destroy();
  }
  await send();
  return `sent ${counted(bytes, 'byte')}`;
};

/** ZMODEM sends without waiting for answers: this bounds what stands between lrzsz, which waits a minute for one, and the line. */
const windowBytes = '4096';
const killMs = 2000;

/** By sz of lrzsz. */
export function sendBy(protocol: 'xmodem' | 'ymodem' | 'zmodem'): SendFile {
  return async (sending) => {
    const { path, line, stop } = sending;
    if (line.packetSize !== 0) throw new CliFailure('refused', 'PACKET_SIZE', 'the port is open with a packet size');
    const child = spawn('sz', ['-vv', `--${protocol}`, '--binary', '--windowsize', windowBytes, resolve(path)]);
    const ended = once(child, 'close') as Promise<[number | null]>;
    ended.catch(() => undefined);
    child.stdin.on('error', () => undefined);
    child.stderr.on('data', (part: Buffer) => sending.progress(liveText(part)));
    const late = new AbortController();
    const send = sender(sending, late.signal);
    // sz tells the device that it stops: those bytes are sent too, if it does so soon.
    const cancel = (): void => {
      child.kill('SIGINT');
      setTimeout(() => late.abort(stop.reason), killMs).unref();
    };
    stop.addEventListener('abort', cancel, { once: true });
    late.signal.addEventListener('abort', () => child.kill('SIGKILL'));
    sending.divert((data) => void child.stdin.write(data));
    try {
      for await (const part of child.stdout) {
        const { whole, rest } = pieces(part as Buffer, pieceBytes(line));
        for (const piece of [...whole, rest]) if (piece.length > 0) await send(piece);
      }
      await send();
      const [status] = await ended;
      stop.throwIfAborted();
      if (status === 0) return 'sent';
      throw new CliFailure('refused', 'LRZSZ', `sz ended with ${status === null ? 'a signal' : `status ${status}`}`);
    } catch (error) {
      throw systemCode(error) === 'ENOENT' ? notInstalled : error;
    } finally {
      stop.removeEventListener('abort', cancel);
      sending.divert(undefined);
      child.kill('SIGKILL');
    }
  };
}

const notInstalled = new CliFailure('refused', 'ENOENT', 'sz is not installed (Debian: apt install lrzsz)');
