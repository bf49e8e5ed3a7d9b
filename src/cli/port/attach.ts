/** attach: the box's port as a device file of this machine, for any program. */
import { lstatSync, readlinkSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { pause } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { retryPause } from '../line/reader.ts';
import { parseSettings, type Settings } from '../line/settings.ts';
import { safeText } from '../output/hex.ts';
import { counted } from '../output/numbers.ts';
import type { Args, Call } from '../shell.ts';
import { type PtySettings, SerialPty, type Terminals } from './pty.ts';
import { endText, isGone, type RemotePort, type TakenPort, takePort } from './remote-port.ts';

const options = [
  option('--link <path>', 'a name for the port that stays the same, such as ~/dev/ttyBOX7'),
  option('--wait', 'while the box cannot be reached, or its port is lost, let the program wait instead of hanging up'),
] as const;
type Options = Given<typeof options>;

interface Connected {
  readonly taken: TakenPort;
  readonly gone: Promise<string>;
}

/** A program that changes the speed and then only reads is followed within this. */
const lookMs = 20;

export const attachCommands: readonly Entry[] = [
  {
    command: 'attach',
    help: 'the line as a device file of this machine (Linux, macOS), for any program: minicom, a Modbus master, a meter reader',
    arguments: [
      {
        name: '[settings]',
        help: '9600,7E1: settings that the program cannot set (default: those of the profile, else as they are)',
      },
    ],
    options,
    notes: `The line is held for you until the command ends. Speed and flow control follow the program; data bits, parity and stop
bits do not, nor do break, DTR and RTS: programs that set those need lineside rfc2217.\n`,
    examples: [
      'lineside attach',
      'lineside attach 9600,7E1 --link ~/dev/ttyBOX7',
      'lineside attach --profile press-04 --wait',
    ],
    what: 'attach the line',
    endsOnCtrlC: () => true,
    run: (call: Call<Options>, args) => new Attachment(call, args).run(),
  },
];

class Attachment {
  readonly #call: Call<Options>;
  readonly #asked: Partial<Settings>;
  #pty: SerialPty | undefined;
  #taken: TakenPort | undefined;
  #set: PtySettings | undefined;
  #unsent = 0;
  #hasLostBytes = false;

  constructor(call: Call<Options>, { settings }: Args) {
    if (process.platform === 'win32')
      throw usageFailure('attach runs on Linux and macOS', 'Elsewhere: lineside rfc2217.');
    if (call.json) throw usageFailure('attach has no JSON');
    this.#call = call;
    const asked = settings ?? call.profile()?.settings;
    this.#asked = asked === undefined ? {} : parseSettings(asked);
  }

  async run(): Promise<number> {
    const { options: given, out, stop } = this.#call;
    const terminals = await loadTerminals();
    const first = await this.#connect('');
    const settings = { ...first.taken.settings, ...this.#asked };
    const pty = new SerialPty(terminals, settings, this.#call.io.clock, (bytes) => this.#fromProgram(bytes));
    this.#pty = pty;
    this.#set = pty.settings();
    const ended = new AbortController();
    void this.#followSettings(ended.signal);
    let unlink: (() => void) | undefined;
    try {
      unlink = given.link === undefined ? undefined : link(given.link, pty.path);
      await out.write(`${given.link ?? pty.path} is ${first.taken.name}; Ctrl-C ends it\n`);
      for (let { gone, taken } = first; ; ) {
        const why = await Promise.race([gone, aborted(stop)]);
        await this.#leave(taken.remote);
        stop.throwIfAborted();
        // A program that waited would read on behind the bytes it lost.
        if (given.wait !== true || this.#hasLostBytes)
          throw new CliFailure('unreachable', 'LOST', why, { next: 'Attach again, or use --wait.' });
        await this.#say(`${why}: programs wait`);
        ({ gone, taken } = await this.#connectAgain(taken.ticket));
        await this.#say('connected again');
        pty.resumeReading();
      }
    } finally {
      ended.abort();
      unlink?.();
      pty.close();
      await this.#taken?.remote.end();
    }
  }

  /** Answers when the port is held; `gone` resolves when it is not usable any more: why. */
  async #connect(ticket: string): Promise<Connected> {
    const gone = Promise.withResolvers<string>();
    const events = {
      received: (bytes: Uint8Array) => this.#pty?.write(bytes),
      event: (event: lineside.v1.LineEvent) => {
        if (isGone(event)) gone.resolve('the port is not open any more');
        if (event.lostBytes == null) return;
        this.#hasLostBytes = true;
        gone.resolve(`the program left ${counted(event.lostBytes, 'byte')} unread`);
      },
    };
    const taken = await takePort(this.#call, events, false, ticket);
    void taken.remote.ended.then((why) => gone.resolve(endText(why)));
    // Again after a loss: as the program has set them.
    const settings = { ...this.#asked, ...this.#set };
    try {
      if (Object.keys(settings).length > 0) await taken.remote.command({ settings });
    } catch (error) {
      await taken.remote.end();
      throw error;
    }
    this.#taken = taken;
    return { taken, gone: gone.promise };
  }

  /** Until the box is back and its port is open. Throws what will not go away by itself: another one's hold, a token that was revoked. */
  async #connectAgain(earlier: string): Promise<Connected> {
    const { io, stop } = this.#call;
    let ticket = earlier;
    for (let attempt = 0; ; attempt++) {
      await retryPause(io.clock, attempt, stop);
      try {
        (await this.#call.service()).drop();
        return await this.#connect(ticket);
      } catch (error) {
        if (!(error instanceof CliFailure)) throw error;
        // The earlier hold has ended with the box's restart: a new one.
        if (error.outcome === 'refused' && ticket !== '') ticket = '';
        else if (error.outcome !== 'unreachable' && error.outcome !== 'closed') throw error;
      }
    }
  }

  async #leave(remote: RemotePort): Promise<void> {
    this.#pty?.pauseReading();
    this.#taken = undefined;
    await remote.end();
    const unsent = this.#unsent;
    this.#unsent = 0;
    if (unsent > 0) await this.#say(`${counted(unsent, 'byte')} did not reach the port, and are not sent again`);
  }

  #say(text: string): Promise<void> {
    return this.#call.err.write(`${text}\n`);
  }

  /** In the order of the program: its settings first, then what it wrote with them. */
  #fromProgram(bytes: Buffer): void {
    const [remote, pty] = [this.#taken?.remote, this.#pty];
    if (remote === undefined || pty === undefined) return void (this.#unsent += bytes.length);
    this.#follow(remote, pty);
    const sent = remote.send(bytes).catch(() => {
      this.#unsent += bytes.length;
    });
    if (remote.isFull) pty.pauseReading();
    void sent.then(() => {
      if (remote === this.#taken?.remote && !remote.isFull) pty.resumeReading();
    });
  }

  async #followSettings(ended: AbortSignal): Promise<void> {
    const { clock } = this.#call.io;
    while (!ended.aborted) {
      if (this.#taken !== undefined && this.#pty !== undefined) this.#follow(this.#taken.remote, this.#pty);
      await pause(clock, lookMs, ended);
    }
  }

  #follow(remote: RemotePort, pty: SerialPty): void {
    const now = pty.settings();
    if (now.baudRate === this.#set?.baudRate && now.flowControl === this.#set.flowControl) return;
    this.#set = now;
    // Speed 0 is how programs drop DTR.
    if (now.baudRate === 0) return;
    remote
      .command({ settings: { ...now, drain: true } })
      .catch((error: unknown) => this.#say(`settings not taken: ${safeText(messageOf(error))}`));
  }
}

/** On a laptop npm may have left out the package with the calls of the C library. */
async function loadTerminals(): Promise<Terminals> {
  try {
    const from = process.platform === 'darwin' ? import('./terminals-macos.ts') : import('./terminals-linux.ts');
    return (await from).terminals;
  } catch (error) {
    const why = messageOf(error).split('\n')[0] ?? '';
    const next = 'Install lineside-client with its optional packages, or use lineside rfc2217.';
    throw new CliFailure('refused', 'NO_LIBRARY', safeText(why), { next, cause: error });
  }
}

/**
 * Answers how to remove it. Replaces nothing but a link whose terminal is gone. The kernel uses the number of a killed
 * command's terminal again: a terminal that is younger than the link is another one.
 */
function link(path: string, target: string): () => void {
  const before = lstatSync(path, { throwIfNoEntry: false });
  if (before !== undefined) {
    const terminal = statSync(path, { throwIfNoEntry: false });
    const isDead =
      before.isSymbolicLink() &&
      /^\/dev\/(?:pts\/|ttys)\d+$/.test(readlinkSync(path)) &&
      (terminal === undefined || terminal.ctimeMs > before.ctimeMs);
    if (!isDead)
      throw new CliFailure('refused', 'EXISTS', `${path} is there already`, {
        next: 'Remove it, or choose another name.',
      });
    rmSync(path);
  }
  symlinkSync(target, path);
  return () => {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() && readlinkSync(path) === target) rmSync(path);
  };
}

function aborted(signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve('');
    signal.addEventListener('abort', () => resolve(''), { once: true });
  });
}
