import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/** Below the range that the system gives to outgoing connections, which would take the port of a server that is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const server = createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}
