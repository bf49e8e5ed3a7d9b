/**
 * The one address at which boxes find their broker or collector: passes everything on, notes when each connection came and how
 * many bytes went which way, and cuts them all at once on command. Connections to a broker that is dead count too: each is a try.
 */
import { connect, createServer, type Socket } from 'node:net';

export type Gate = Awaited<ReturnType<typeof openGate>>;

/** The same in every process of this machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** To a port of this machine. `port` 0: one that is free. Alone it keeps no process alive. */
export async function openGate(target: () => number, host = '127.0.0.1', port = 0) {
  const accepted: number[] = [];
  const pairs = new Set<readonly [Socket, Socket]>();
  const bytes = { up: 0, down: 0 };
  const server = createServer({ noDelay: true }, (box) => {
    accepted.push(monotonicMs());
    const broker = connect({ port: target(), host: '127.0.0.1', noDelay: true });
    const pair = [box, broker] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.on('error', end).on('close', end);
    box.on('data', (piece) => {
      bytes.up += piece.length;
    });
    broker.on('data', (piece) => {
      bytes.down += piece.length;
    });
    box.pipe(broker);
    broker.pipe(box);
  });
  // A fleet that comes at once: the system's own limit is what holds, not Node's 511.
  await new Promise<void>((resolve) => server.listen({ port, host, backlog: 65_535 }, resolve));
  server.unref();
  const at = server.address();
  if (at === null || typeof at === 'string') throw new Error('a gate without a port');
  const cutAll = (): void => {
    for (const [box, broker] of pairs) {
      box.resetAndDestroy();
      broker.destroy();
    }
  };
  return {
    port: at.port,
    /** monotonicMs() of each connection, in order. */
    accepted: accepted as readonly number[],
    open: () => pairs.size,
    /** Bytes since the start: from the boxes, and to them. */
    bytes: () => ({ ...bytes }),
    /** Resets every connection; new ones are accepted. */
    cutAll,
    close() {
      server.close();
      cutAll();
    },
  };
}
