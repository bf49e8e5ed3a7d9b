/** The file of a Unix socket to listen on: what a killed process left behind, who may connect, how it goes. */
import { chmod, lstat, unlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { LinesideError, systemCode } from './errors.ts';

/** Owner and group: who may use the service is who is in its group. */
const SOCKET_MODE = 0o660;

/**
 * Removes a socket that a killed process left behind; one on which a process answers, or any other file, is left alone
 * (CONFIG_INVALID). `key`: the configuration's, for the hint.
 */
export async function clearStaleSocket(path: string, key: string): Promise<void> {
  try {
    const found = await lstat(path);
    if (!found.isSocket()) {
      throw new LinesideError('CONFIG_INVALID', `${path} exists and is no socket`, {
        hint: `remove it, or set ${key} to another path`,
      });
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return;
    throw error;
  }
  if (await answers(path)) {
    throw new LinesideError('CONFIG_INVALID', `another process listens on ${path}`, {
      hint: 'is lineside running already?',
    });
  }
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const end = (answered: boolean): void => {
      socket.destroy();
      resolve(answered);
    };
    socket.once('connect', () => end(true));
    // ECONNREFUSED: no process is bound to it. Anything else (EACCES, EAGAIN) may be one.
    socket.once('error', (error) => end(systemCode(error) !== 'ECONNREFUSED'));
  });
}

export async function protectSocket(path: string): Promise<void> {
  await chmod(path, SOCKET_MODE);
}

export async function removeSocket(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
}
