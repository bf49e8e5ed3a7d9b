/** Commands on a real pseudo-terminal, ended after each test. */
import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../../shared/base/wait.fixture.ts';
import { cleanEnv } from '../drive.fixture.ts';
import { socket } from './fake-service.fixture.ts';

const terminals: Terminal[] = [];
afterEach(() => {
  for (const terminal of terminals.splice(0)) terminal.abandon();
});

/** A command on a real pseudo-terminal, for the service of the test that runs. */
export class Terminal {
  readonly #child: ChildProcessWithoutNullStreams;
  #screen = '';
  #host = '';

  constructor(argv: readonly string[], env: Record<string, string> = {}) {
    const source = (name: string): string => JSON.stringify(new URL(name, import.meta.url).href);
    const script = `const {runCli}=await import(${source('../cli.ts')});const {processIo}=await import(${source('../io.ts')});
      process.on('SIGUSR2',()=>{throw new Error('a defect')});
      process.exitCode=await runCli(process.argv.slice(1),processIo(),{version:'0',localSocket:()=>${JSON.stringify(socket)}});`;
    const node = [process.execPath, '--input-type=module', '-e', script, '--'];
    const host = fileURLToPath(new URL('../terminal-host.py', import.meta.url));
    this.#child = spawn('python3', [host, ...node, ...argv], { env: cleanEnv(env) });
    terminals.push(this);
    this.#child.stdout.on('data', (part: Buffer) => {
      this.#screen += part.toString('latin1');
    });
    this.#child.stderr.on('data', (part: Buffer) => {
      this.#host += part.toString();
    });
  }

  get screen(): string {
    return this.#screen;
  }

  async shows(text: string): Promise<void> {
    const shown = until(`the screen shows ${JSON.stringify(text)}`, () => this.#screen.includes(text));
    await shown.catch((error: Error) => assert.fail(`${error.message}, not ${JSON.stringify(this.#screen)}`));
  }

  type(keys: string): void {
    this.#child.stdin.write(Buffer.from(keys, 'latin1'));
  }

  kill(signal: NodeJS.Signals): void {
    process.kill(Number(/pid (\d+)/.exec(this.#host)?.[1]), signal);
  }

  /** A failed test leaves no process behind: the terminal hangs up. */
  abandon(): void {
    this.#child.kill('SIGKILL');
  }

  /** "status 0 restored" */
  async end(): Promise<string> {
    if (this.#child.exitCode === null) await once(this.#child, 'close');
    return this.#host.trim().split('\n').at(-1) ?? '';
  }
}
