/** The other end of NOTIFY_SOCKET: a real datagram socket of another process, with every message that came, in order. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';

const RECEIVER = `
import json, os, socket, sys, time
name = sys.argv[1]
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind('\\0' + name[1:] if name.startswith('@') else name)
print('null', flush=True)
while True:
    message = receiver.recv(65536).decode()
    print(json.dumps([time.monotonic(), message]), flush=True)
`;
/** For what is waited for; a test that passes never waits so long. */
const LIMIT_MS = 20_000;

export interface NotifySocket {
  readonly name: string;
  /** Each with its assignments, in the order they came. */
  readonly messages: readonly Message[];
  /** The first message from the `from`-th on that `fits`; waits for it. */
  waitFor(fits: (message: Message) => boolean, from?: number): Promise<Message>;
}

interface Message {
  readonly text: string;
  /** By the monotonic clock. */
  readonly atMs: number;
  readonly fields: Readonly<Record<string, string>>;
}

/** `name`: a path, or "@name" of the abstract namespace. Resolves when it is bound. Closed at the end of the test. */
export async function openNotifySocket(t: TestContext, name: string): Promise<NotifySocket> {
  const child = spawn('python3', ['-c', RECEIVER, name], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  const messages: Message[] = [];
  const lookers: (() => void)[] = [];
  const bound = Promise.withResolvers<void>();
  child.once('error', bound.reject);
  child.once('exit', () => bound.reject(new Error('the receiver has ended')));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const read = JSON.parse(line) as [number, string] | null;
    if (read === null) return bound.resolve();
    const [seconds, text] = read;
    const fields = Object.fromEntries(text.split('\n').map((one) => one.split(/=(.*)/s).slice(0, 2)));
    messages.push({ text, atMs: seconds * 1_000, fields });
    for (const look of lookers.splice(0)) look();
  });
  await bound.promise;
  return {
    name,
    messages,
    async waitFor(fits, from = 0) {
      const over = AbortSignal.timeout(LIMIT_MS);
      for (;;) {
        const found = messages.slice(from).find(fits);
        if (found !== undefined) return found;
        if (over.aborted) throw new Error(`not among:\n${messages.map(({ text }) => text).join('\n--\n')}`);
        await new Promise<void>((resolve) => {
          lookers.push(resolve);
          over.addEventListener('abort', () => resolve(), { once: true });
        });
      }
    },
  };
}
