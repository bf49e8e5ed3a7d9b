/** rfc2217: the box's port for programs of this machine that speak RFC 2217, on a loopback address. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { isLoopback, parseHost } from '../connection/endpoint.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { counted } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { endText, isGone, maxUnansweredBytes, type RemotePort, takePort } from './remote-port.ts';
import { checkTelnet, Rfc2217 } from './rfc2217.ts';

const usualPort = 2217;
/** A program answers the negotiation at once; a connection that says nothing is not to keep others out. */
const maxSilenceMs = 10_000;

const options = [
  option('--listen <address>', 'where programs connect to: host:port, or :port for 127.0.0.1', {
    usual: `127.0.0.1:${usualPort}`,
  }),
  option('--replace', 'a program that connects takes the place of the one before, instead of being refused'),
  option('--beyond-loopback', 'allow an address that other machines reach: there is no password'),
] as const;
type Options = Given<typeof options>;

export const rfc2217Commands: readonly Entry[] = [
  {
    command: 'rfc2217',
    help: 'the line as a serial port for programs of this machine (RFC 2217): pyserial, PuTTY, socat',
    options,
    notes:
      'One program at a time; while it is connected the line is held for it. Every user of this machine can connect.\n',
    examples: ['lineside rfc2217', 'lineside rfc2217 --profile press-04 --listen :4001'],
    what: 'serve the line',
    endsOnCtrlC: () => true,
    run: serve,
  },
];

async function serve(call: Call<Options>): Promise<number> {
  const { listen } = call.options;
  const { host, port } = parseHost(listen.startsWith(':') ? `127.0.0.1${listen}` : listen, usualPort, 0);
  if (!isLoopback(host) && call.options.beyondLoopback !== true)
    throw usageFailure(
      `--listen: ${host} can be reached by other machines`,
      'Add --beyond-loopback if that is wanted.',
    );
  if (call.json) throw usageFailure('rfc2217 has no JSON');
  // Refused here, before any program connects.
  await call.line(({ line }, limits) => line.getStatus({}, limits));
  const server = createServer({ noDelay: true });
  await listening(server, host, port);
  const bound = server.address();
  const shown = `${host}:${typeof bound === 'object' ? bound?.port : port}`;
  await call.out.write(`listening on ${shown}: rfc2217://${shown}\n`);
  let serving: Promise<void> = Promise.resolve();
  let before: Socket | undefined;
  server.on('connection', (socket) => {
    socket.on('error', () => {});
    const isFree = before === undefined || before.destroyed;
    if (!isFree && call.options.replace !== true) return void socket.destroy();
    before?.destroy();
    before = socket;
    serving = serving.then(() => new Client(call, socket).run());
  });
  await once(call.stop, 'abort').catch(() => undefined);
  server.close();
  await serving;
  call.stop.throwIfAborted();
  return exitStatus.ok;
}

/** One program from its connection to its end. */
class Client {
  readonly #call: Call<Options>;
  readonly #socket: Socket;
  #wake = (): void => {};
  #unsent = 0;

  constructor(call: Call<Options>, socket: Socket) {
    this.#call = call;
    this.#socket = socket;
  }

  async run(): Promise<void> {
    const { err, stop } = this.#call;
    const hangUp = (): void => void this.#socket.destroy();
    stop.addEventListener('abort', hangUp, { once: true });
    if (this.#socket.destroyed) return;
    const from = `${safeText(this.#socket.remoteAddress ?? '')}:${this.#socket.remotePort ?? ''}`;
    try {
      const why = await this.#serve();
      const unsent = this.#unsent === 0 ? '' : `; ${counted(this.#unsent, 'byte')} did not reach the port`;
      await err.write(`${from}: ended${why === '' ? '' : `: ${why}`}${unsent}\n`);
    } catch (error) {
      await err.write(`${from}: ended: ${safeText(messageOf(error))}\n`);
    } finally {
      stop.removeEventListener('abort', hangUp);
      hangUp();
    }
  }

  /** Answers why it ended; '': the program closed it. The line is taken only when the program has answered in telnet. */
  async #serve(): Promise<string> {
    const socket = this.#socket;
    const ended = Promise.withResolvers<string>();
    socket.once('close', () => ended.resolve(''));
    socket.on('drain', () => this.#wake());
    let remote: RemotePort | undefined;
    const taken = (): RemotePort => {
      if (remote === undefined) throw new Error('the line is not taken');
      return remote;
    };
    const protocol = new Rfc2217({
      port: {
        send: (bytes) => this.#send(taken(), bytes),
        command: (command) => this.#bounded(taken(), taken().command(command)),
      },
      signature: 'lineside',
      write: (bytes) => void socket.write(bytes),
      onResume: () => this.#wake(),
    });
    const first = await firstBytes(socket, this.#call.io.clock);
    if (first === undefined) return '';
    checkTelnet(first);
    const events = {
      received: (bytes: Uint8Array) => this.#toProgram(protocol, bytes),
      event: (event: lineside.v1.LineEvent) => {
        if (isGone(event)) ended.resolve('the port is not open any more');
        this.#event(protocol, event);
      },
    };
    const port = await takePort(this.#call, events, true);
    remote = port.remote;
    protocol.settingsAre(port.settings);
    void remote.ended.then((why) => ended.resolve(why === undefined ? '' : endText(why)));
    protocol.take(first);
    socket.on('data', (bytes: Buffer) => protocol.take(bytes));
    socket.resume();
    try {
      return await ended.promise;
    } finally {
      this.#wake();
      socket.destroy();
      await remote.end();
    }
  }

  /** What the program writes waits in its own connection while much has no answer yet. */
  async #bounded<T>(remote: RemotePort, work: Promise<T>): Promise<T> {
    if (remote.isFull) this.#socket.pause();
    try {
      return await work;
    } finally {
      if (!remote.isFull) this.#socket.resume();
    }
  }

  async #send(remote: RemotePort, bytes: Uint8Array): Promise<void> {
    try {
      await this.#bounded(remote, remote.send(bytes));
    } catch (error) {
      this.#unsent += bytes.length;
      throw error;
    }
  }

  /** What the program does not take waits on the box, which bounds it. */
  async #toProgram(protocol: Rfc2217, bytes: Uint8Array): Promise<void> {
    const socket = this.#socket;
    const waits = (): boolean => protocol.suspended || socket.writableLength > maxUnansweredBytes;
    while (waits() && !socket.destroyed)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    protocol.received(bytes);
  }

  #event(protocol: Rfc2217, { modemLines, lineErrors, settings, lostBytes }: lineside.v1.LineEvent): void {
    if (modemLines != null) protocol.modemLines(modemLines);
    if (lineErrors != null) protocol.lineErrors(lineErrors);
    if (settings != null) protocol.settingsAre(settings);
    if (lostBytes != null)
      void this.#call.err.write(
        `${counted(lostBytes, 'byte')} were not taken in time and are in the box's log alone\n`,
      );
  }
}

/** undefined: it was closed, or nothing came in time. What follows waits until resume(). */
function firstBytes(socket: Socket, clock: Clock): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const done = (bytes?: Buffer): void => {
      silent.cancel();
      socket.pause();
      resolve(bytes);
    };
    const silent = clock.timer(maxSilenceMs, () => done());
    socket.once('close', () => done());
    socket.once('data', done);
  });
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new CliFailure('refused', 'LISTEN', safeText(messageOf(error)), {
      next: 'Choose another address: --listen.',
    });
  }
}
