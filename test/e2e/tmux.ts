/** A terminal of its own for programs that want one: keys in, the screen out. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, startProcess, temporaryDirectory } from './daemon.ts';

export interface Terminal {
  /** Names of keys and text, as tmux send-keys takes them. */
  keys(...keys: readonly string[]): void;
  /** Until the screen shows it. */
  shows(pattern: RegExp): Promise<unknown>;
}

/** Runs the command line; the screen keeps what it left, and its exit status ("status 0"). */
export async function inTerminal(command: string): Promise<Terminal> {
  const socket = join(temporaryDirectory(), 'tmux');
  // In the foreground: it ends with the test file.
  startProcess('tmux', ['-S', socket, '-f', '/dev/null', '-D']);
  await until('tmux runs', () => existsSync(socket));
  const tmux = (...args: readonly string[]): string => {
    const env = environment({ TERM: 'xterm' });
    const { status, stdout, stderr } = spawnSync('tmux', ['-S', socket, ...args], { encoding: 'utf8', env });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  tmux('new-session', '-d', '-x', '80', '-y', '24', `${command}; echo status $?; exec sleep 1000`);
  return {
    keys: (...keys) => void tmux('send-keys', ...keys),
    async shows(pattern) {
      let screen = '';
      const look = (): boolean => {
        screen = tmux('capture-pane', '-p');
        return pattern.test(screen);
      };
      await until(`${pattern} on the screen`, look).catch((error: unknown) =>
        assert.fail(`${String(error)}:\n${screen}`),
      );
    },
  };
}
