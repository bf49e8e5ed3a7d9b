/**
 * The network between a box and its broker, on command: what a connection carries towards the broker can be held back
 * and delivered late, after the box has long given that connection up, as a network does with packets that it kept.
 * `advertised.listeners` of the broker has to name it.
 */
import { connect, createServer, type Socket } from 'node:net';
import { after } from 'node:test';

interface Line {
  readonly box: Socket;
  readonly broker: Socket;
  readonly kept: Buffer[];
  held: boolean;
  /** What it kept was delivered. */
  isLate: boolean;
}

/** Gone when the file ends. */
export async function startProxy(target: () => number) {
  const lines = new Set<Line>();
  let isCut = false;
  let answered = 0;
  let bytesPerSecond = 0;
  let freeAtMs = 0;
  const server = createServer({ allowHalfOpen: true }, (box) => {
    if (isCut) return void box.destroy();
    const broker = connect({ port: target(), host: '127.0.0.1', allowHalfOpen: true });
    const line: Line = { box, broker, kept: [], held: false, isLate: false };
    lines.add(line);
    for (const socket of [box, broker]) socket.on('error', () => {});
    box.on('data', (bytes) => {
      if (line.held) return void line.kept.push(bytes);
      if (bytesPerSecond === 0) return void broker.write(bytes);
      // The kernel's buffers before a slow line fill up: nothing more is read until this has gone.
      box.pause();
      freeAtMs = Math.max(freeAtMs, performance.now()) + (bytes.length / bytesPerSecond) * 1_000;
      setTimeout(() => {
        if (line.held) line.kept.push(bytes);
        else broker.write(bytes);
        box.resume();
      }, freeAtMs - performance.now());
    });
    broker.on('data', (bytes) => {
      if (line.isLate) answered += bytes.length;
      if (!line.held && !box.destroyed) box.write(bytes);
    });
    box.on('close', () => {
      if (line.held) return;
      lines.delete(line);
      broker.destroy();
    });
    box.on('end', () => void (line.held || broker.end()));
    broker.on('close', () => {
      lines.delete(line);
      box.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cutAll = (): void => {
    for (const { box, broker } of lines) for (const socket of [box, broker]) socket.destroy();
  };
  after(() => {
    server.close();
    cutAll();
  });
  const at = server.address();
  return {
    address: `127.0.0.1:${typeof at === 'object' ? at?.port : ''}`,
    /** What the connections of now carry to the broker is kept from here on. New connections are not concerned. */
    hold(): void {
      answered = 0;
      for (const line of lines) line.held = true;
    },
    /** What was kept arrives now, also from connections that are closed meanwhile. Answers how many bytes. */
    deliver(): number {
      let bytes = 0;
      for (const line of lines) {
        line.held = false;
        line.isLate ||= line.kept.length > 0;
        for (const piece of line.kept.splice(0)) {
          bytes += piece.length;
          line.broker.write(piece);
        }
      }
      return bytes;
    },
    /** Bytes with which the broker has answered what was held. */
    answeredLate: () => answered,
    /** Bytes a second towards the broker, for all connections together; 0: as fast as it goes. */
    slow(rate: number): void {
      bytesPerSecond = rate;
      freeAtMs = 0;
    },
    /** Every connection is cut, and so is each new one until open(). */
    cut(): void {
      isCut = true;
      cutAll();
    },
    open(): void {
      isCut = false;
    },
  };
}
