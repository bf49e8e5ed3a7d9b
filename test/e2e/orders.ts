/** A Python program of these tests that takes orders as JSON lines, each with an "id", and answers {"done": id}. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { environment, killGroup, startProcess } from './daemon.ts';
import { PYTHON } from './python.ts';

interface Message {
  readonly port?: number;
  readonly done?: number;
}

export class Orders {
  readonly #script: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #complaint: Promise<string>;
  readonly #first = Promise.withResolvers<Message>();
  readonly #waiting = new Map<number, () => void>();
  #orders = 0;

  /** `wrapper`: a command that runs it: ['ip', 'netns', 'exec', name]. */
  constructor(wrapper: readonly string[], script: string, ...more: readonly string[]) {
    this.#script = script;
    const [command = '', ...args] = [...wrapper, PYTHON, join(import.meta.dirname, script), ...more];
    this.#child = startProcess(command, args, environment());
    this.#ended = once(this.#child, 'close');
    const { stdout, stderr } = this.#child;
    if (stdout === null || stderr === null) throw new Error(`no pipes from ${script}`);
    this.#complaint = text(stderr);
    createInterface({ input: stdout }).on('line', (line) => {
      const message = JSON.parse(line) as Message;
      if (message.done === undefined) this.#first.resolve(message);
      else this.#waiting.get(message.done)?.();
    });
  }

  /** What it says when it is ready; `settings` are its first line, if it has any. */
  first(settings?: object): Promise<Message> {
    if (settings !== undefined) this.#say(settings);
    return this.#unlessEnded(`${this.#script} is ready`, this.#first.promise);
  }

  async order(order: object): Promise<void> {
    this.#orders += 1;
    const id = this.#orders;
    const done = new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    this.#say({ id, ...order });
    await this.#unlessEnded(`${this.#script} obeys ${JSON.stringify(order)}`, done);
    this.#waiting.delete(id);
  }

  async stop(): Promise<void> {
    killGroup(this.#child);
    await within(`${this.#script} ends`, this.#ended);
  }

  #say(message: object): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  #unlessEnded<T>(what: string, promise: Promise<T>): Promise<T> {
    const ended = this.#ended.then(async () => {
      throw new Error(`${this.#script} has ended:\n${await this.#complaint}`);
    });
    return within(what, Promise.race([promise, ended]));
  }
}
