/** monitor: the line as a terminal. Keys or lines to packets, received bytes and the log to the screen, notices in between. */
import Long from 'long';
import { endsWithin, pause } from '../../shared/base/clock.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { noOpenPort, type Service } from '../connection/service.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { logItems } from '../output/entries.ts';
import { safeText } from '../output/hex.ts';
import { directionName, portStateName } from '../output/json.ts';
import { secondsAsMs } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { breakMs, Keys, keyList, LineSplitter, type SessionKey, type Typed } from './keys.ts';
import { type Line, longestWaitSeconds, maxPayloadBytes, pieces } from './packets.ts';
import { LiveSession, type Position } from './reader.ts';
import { newlines, Screen } from './screen.ts';
import { type SendFile, sendBy, sendRaw } from './send-file.ts';
import { settingsText } from './settings.ts';

/** A device that answers a command does so within this, seen from a script. */
const usualWaitMs = 1000;

const enters = ['cr', 'lf', 'crlf'] as const;

const options = [
  option('--hex', 'show hex, both directions'),
  option('--echo', 'show what is typed'),
  option('--timestamps', 'begin each line with the time at which it came'),
  option('--enter <end>', 'what Enter sends', { choices: enters, usual: 'cr' }),
  option('--newline <end>', 'line ends of the device: as they come, CR begins a new line, CR is left out', {
    choices: newlines,
    usual: 'as-is',
  }),
  option('--log <file>', 'append to a file what the line shows'),
  option('--raw', 'let the line drive this terminal: colours, cursor, and whatever else it sends'),
  option('--wait <seconds>', 'input that is no terminal: continue so long after its end', {
    parse: secondsAsMs(longestWaitSeconds),
    usual: usualWaitMs,
    usualText: String(usualWaitMs / 1000),
  }),
] as const;
type MonitorOptions = Given<typeof options>;

export const monitorCommands: readonly Entry[] = [
  {
    command: 'monitor',
    help: 'talk to the device: keys go to the line, the line to the screen; Ctrl-] leaves, Ctrl-T ? lists the keys',
    options,
    notes: `Keys in the session:
${keyList}  Ctrl-T Ctrl-T sends Ctrl-T; Ctrl-C cancels a file that is being sent.
Input that is no terminal is sent line by line, each with the end that --enter names.`,
    examples: [
      'lineside monitor',
      'lineside monitor --hex --echo --enter crlf',
      'lineside monitor --timestamps --log press-04.txt',
      'echo "ATI" | lineside monitor --wait 3',
    ],
    what: 'monitor the line',
    endsOnCtrlC: () => true,
    run: monitor,
  },
];

async function monitor(call: Call<MonitorOptions>): Promise<number> {
  const { raw, hex, timestamps, newline } = call.options;
  if (raw === true && (hex === true || timestamps === true || newline !== 'as-is')) {
    throw usageFailure('--raw and --hex, --timestamps or --newline exclude each other');
  }
  if (call.json)
    throw usageFailure('monitor has no JSON', 'For scripts: lineside log --follow --json, and lineside send.');
  return await new Monitor(call).run();
}

const enterBytes = { cr: Buffer.from('\r'), lf: Buffer.from('\n'), crlf: Buffer.from('\r\n') } as const;
/** After Ctrl-] the last keys still get their answers, for so long. */
const farewellMs = 1000;
const ctrlC = 0x03;

function onOff(on: boolean): 'on' | 'off' {
  return on ? 'on' : 'off';
}

/** The next of a few, after the last the first. */
function after<T>(all: readonly T[], now: T): T {
  return all[(all.indexOf(now) + 1) % all.length] ?? now;
}

type Divert = ((data: Uint8Array) => void) | undefined;

class Monitor {
  readonly #call: Call<MonitorOptions>;
  readonly #isTerminal: boolean;
  readonly #leave = new AbortController();
  readonly #stop: AbortSignal;
  readonly #screen: Screen;
  readonly #keys: Keys;
  #line: Line = { baudRate: 0, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 };
  #held: Buffer = Buffer.alloc(0);
  #portState = '';
  #session: LiveSession | undefined;
  /** Of what was sent last. */
  #refused = false;
  /** Resolves when what was sent has its answers. */
  #answered: Promise<void> = Promise.resolve();
  #status: number = exitStatus.ok;
  /** What an answer is for; the screen waits meanwhile. */
  #question: { readonly answered: PromiseWithResolvers<void>; use(text: string): Promise<void> } | undefined;
  /** The file that is being sent. */
  #sending: AbortController | undefined;
  /** Resolves when the last file was sent, or not. */
  #sent: Promise<void> = Promise.resolve();
  /** Of a file that is being sent: a defect. */
  readonly #failed = Promise.withResolvers<never>();
  /** Takes what is received, instead of the screen. */
  #divert: Divert;

  constructor(call: Call<MonitorOptions>) {
    this.#call = call;
    this.#isTerminal = call.io.stdin.isTTY === true && call.io.stdin.setRawMode !== undefined;
    this.#stop = AbortSignal.any([call.stop, this.#leave.signal]);
    const { hex = false, echo = false, timestamps = false, raw = false, newline, enter } = call.options;
    this.#screen = new Screen(call.out, call.err, { hex, echo, timestamps, raw, newline });
    this.#keys = new Keys(enterBytes[enter]);
  }

  async run(): Promise<number> {
    const service = await this.#call.service();
    const { log } = this.#call.options;
    if (log !== undefined) await this.#screen.copyTo(log);
    const session = this.#sessionFrom(service, await this.#greet());
    this.#session = session;
    const { io, stop } = this.#call;
    this.#stop.addEventListener('abort', () => this.#question?.answered.resolve(), { once: true });
    // Every key comes as it is, Ctrl-C too. After a crash Node resets the terminal when it exits.
    if (this.#isTerminal) io.stdin.setRawMode?.(true);
    try {
      await Promise.race([session.run(), this.#readInput(session.standing), this.#failed.promise]);
    } catch (error) {
      if (!this.#leave.signal.aborted || stop.aborted) throw error;
    } finally {
      this.#leave.abort();
      await this.#screen.endCopy();
      if (this.#isTerminal) io.stdin.setRawMode?.(false);
      io.stdin.destroy();
    }
    return this.#status;
  }

  /** Says what the line is; answers where its log stands now. */
  async #greet(): Promise<Position> {
    const status = await this.#call.line(({ line }, options) => line.getStatus({}, options));
    const { requested } = status;
    if (requested === null) throw noOpenPort();
    this.#line = requested;
    this.#portState = portStateName(status.portState);
    const position = { afterId: status.log?.headId ?? Long.UZERO, logId: status.log?.logId ?? '' };
    if (!this.#isTerminal) return position;
    const { packetSize } = this.#line;
    const packets = packetSize === 0 ? '' : ` Keys are sent in packets of ${packetSize} bytes.`;
    const name = `${safeText(requested.portName)} ${settingsText(requested)}`;
    await this.#screen.notice(`${name}, ${this.#portState}. Ctrl-] leaves, Ctrl-T ? lists the keys.${packets}`);
    return position;
  }

  #sessionFrom(service: Service, position: Position): LiveSession {
    const notice = (text: string): Promise<void> => this.#screen.notice(text);
    const events = {
      broken: (failure: Error) => notice(`connection lost: ${failure.message}. Trying again.`),
      restored: () => notice('connected again'),
      lost: (failure: Error) => notice(`entries are missing here: ${failure.message}`),
      behind: () => notice('bytes were not shown in time: the log of the box is shown from the last chunk on'),
      received: (bytes: Uint8Array) => this.#received(bytes),
      log: (batch: lineside.v1.LogBatch, isLive: boolean) => this.#show(batch, isLive),
      portState: (state: lineside.v1.PortState) => this.#portChanged(portStateName(state)),
    };
    return new LiveSession(service, position, { clock: this.#call.io.clock, stop: this.#stop, events });
  }

  async #readInput(standing: Promise<void>): Promise<never> {
    const { stdin, clock } = this.#call.io;
    const lines = new LineSplitter();
    await standing;
    for await (const part of stdin) {
      const data = Buffer.from(part as Uint8Array | string);
      if (!this.#isTerminal) for (const line of lines.push(data)) await this.#sendLine(line);
      else for (const typed of this.#keys.read(data)) if (await this.#typed(typed)) return this.#farewell();
    }
    for (const line of lines.end()) await this.#sendLine(line);
    if (!this.#isTerminal) await pause(clock, this.#call.options.wait, this.#stop);
    return await this.#farewell();
  }

  #sendLine(line: Buffer): Promise<void> {
    return this.#send(Buffer.concat([line, this.#keys.enter]));
  }

  /** Answers whether to leave. */
  async #typed(typed: Typed): Promise<boolean> {
    if (typed.kind === 'edit') await this.#screen.edit(typed.echo);
    else if (typed.kind === 'answer') await this.#use(typed.text);
    else if (typed.kind === 'command') {
      if (typed.key === 'q') return true;
      await this.#command(typed.key);
    } else if (this.#sending === undefined) await this.#send(typed.bytes);
    else if (typed.bytes.includes(ctrlC)) this.#sending.abort(new CliFailure('refused', 'CANCELLED', 'cancelled'));
    return false;
  }

  async #farewell(): Promise<never> {
    this.#sending?.abort(new CliFailure('refused', 'CANCELLED', 'cancelled'));
    this.#question?.answered.resolve();
    await this.#sent;
    await this.#settled();
    if (this.#held.length > 0)
      await this.#screen.notice(`${this.#held.length} bytes did not fill a packet and were not sent`);
    if (this.#isTerminal) await this.#screen.freshLine();
    this.#leave.abort();
    throw new Error('left');
  }

  /** Until what was sent has its answers, if they come soon. */
  async #settled(): Promise<void> {
    await endsWithin(this.#call.io.clock, farewellMs, this.#answered);
  }

  async #send(bytes: Buffer): Promise<void> {
    await this.#screen.typed(bytes);
    for (const packet of this.#packets(bytes)) {
      const port = this.#session?.port;
      this.#answered = this.#sendPacket(packet).then(
        () => void (this.#refused = false),
        (failure: CliFailure) => this.#notSent(failure),
      );
      this.#answered.catch((error: unknown) => this.#failed.reject(error));
      if (port?.isFull === true) await this.#answered;
    }
  }

  /** Resolves with the answer of the box. */
  async #sendPacket(packet: Uint8Array): Promise<void> {
    const port = this.#session?.port;
    if (port === undefined) throw new CliFailure('unreachable', 'UNAVAILABLE', 'there is no connection');
    await port.send(packet);
  }

  async #notSent({ code, message }: CliFailure): Promise<void> {
    this.#held = Buffer.alloc(0);
    if (this.#stop.aborted) return;
    if (!this.#isTerminal) this.#status = exitStatus.refused;
    const isSaid = this.#refused || code === 'LOST';
    this.#refused = true;
    if (!isSaid) await this.#screen.notice(`not sent: ${message}`);
  }

  /** The bytes as packets; with a packet size, what does not fill one waits for more. */
  #packets(bytes: Buffer): Buffer[] {
    const { packetSize } = this.#line;
    const { whole, rest } = pieces(Buffer.concat([this.#held, bytes]), packetSize || maxPayloadBytes);
    this.#held = packetSize === 0 ? Buffer.alloc(0) : rest;
    return packetSize === 0 && rest.length > 0 ? [...whole, rest] : whole;
  }

  async #received(bytes: Uint8Array): Promise<void> {
    if (this.#divert !== undefined) return this.#divert(bytes);
    await this.#question?.answered.promise;
    await this.#screen.live(bytes);
  }

  async #show(batch: lineside.v1.LogBatch, isLive: boolean): Promise<void> {
    await this.#question?.answered.promise;
    for (const item of logItems(batch)) {
      const isReceived = item.kind === 'entry' && directionName(item.value.entry.dir) === 'rx';
      const isShown = isReceived && isLive && !this.#screen.look.hex;
      if (!isShown && (this.#divert === undefined || item.kind === 'gap')) await this.#screen.item(item);
    }
  }

  /** Says when the port is lost and when it is back. */
  async #portChanged(state: string): Promise<void> {
    if (state === this.#portState || state === 'opening' || state === 'reopening' || state === 'closing') return;
    this.#portState = state;
    // A connection that is lost meanwhile is the session's to say.
    const status = await this.#call.line(({ line }, options) => line.getStatus({}, options)).catch(() => undefined);
    this.#line = status?.requested ?? this.#line;
    const why = status === undefined || status.portError === '' ? '' : `: ${safeText(status.portError)}`;
    await this.#screen.notice(state === 'open' ? 'the port is open again' : `the port is ${state}${why}`);
  }

  // The keys of the session.

  async #command(key: string): Promise<void> {
    const { look } = this.#screen;
    const sendFile = (how: SendFile) => this.#ask('file to send', (path) => this.#sendFile(path, how));
    const run: Readonly<Record<Exclude<SessionKey, 'q'>, () => Promise<void>>> = {
      '?': () => this.#screen.notice(`keys:\n${keyList.trimEnd()}`),
      b: () => this.#wire('send a break', this.#sendBreak),
      d: () => this.#wire('toggle DTR', () => this.#toggle('dtr')),
      r: () => this.#wire('toggle RTS', () => this.#toggle('rts')),
      t: () => this.#flip('timestamps'),
      e: () => this.#flip('echo'),
      h: () => this.#flip('hex'),
      n: () => this.#screen.notice(`line ends: ${(look.newline = after(newlines, look.newline))}`),
      o: () => this.#nextEnter(),
      l: () => this.#toggleLog(),
      f: () => sendFile(sendRaw),
      x: () => sendFile(sendBy('xmodem')),
      y: () => sendFile(sendBy('ymodem')),
      z: () => sendFile(sendBy('zmodem')),
    };
    const known = Object.hasOwn(run, key) ? run[key as keyof typeof run] : undefined;
    if (known === undefined) await this.#screen.notice('no such key: Ctrl-T ? lists them');
    else await known();
  }

  async #flip(name: 'timestamps' | 'echo' | 'hex'): Promise<void> {
    const { look } = this.#screen;
    if (look.raw && name !== 'echo') return this.#screen.notice('not with --raw');
    look[name] = !look[name];
    await this.#screen.notice(`${name} ${onOff(look[name])}`);
  }

  async #nextEnter(): Promise<void> {
    const now = enters.find((name) => enterBytes[name] === this.#keys.enter) ?? 'cr';
    const next = after(enters, now);
    this.#keys.enter = enterBytes[next];
    await this.#screen.notice(`Enter sends ${next}`);
  }

  /** After what was typed before; a refusal does not end the session. */
  async #wire(what: string, run: () => Promise<string>): Promise<void> {
    await this.#settled();
    await this.#reported(what, run);
  }

  async #reported(what: string, run: () => Promise<string>): Promise<void> {
    try {
      await this.#screen.notice(await run());
    } catch (error) {
      this.#stop.throwIfAborted();
      if (!(error instanceof CliFailure)) throw error;
      await this.#screen.notice(`cannot ${what}: ${error.message}`);
    }
  }

  readonly #sendBreak = async (): Promise<string> => {
    await this.#call.line(({ line }, options) => line.sendBreak({ durationMs: breakMs }, options), breakMs);
    return `break of ${breakMs} ms sent`;
  };

  async #toggle(name: 'dtr' | 'rts'): Promise<string> {
    const now = await this.#call.line(({ line }, options) => line.getModemLines({}, options));
    const lines = await this.#call.line(({ line }, options) => line.setModemLines({ [name]: !now[name] }, options));
    return `${name.toUpperCase()} ${onOff(lines[name])}`;
  }

  async #toggleLog(): Promise<void> {
    const log = (path: string): Promise<void> =>
      this.#reported(`log to ${safeText(path)}`, async () => {
        await this.#screen.copyTo(path);
        return `logging to ${safeText(path)}`;
      });
    if (!this.#screen.isCopied) return this.#ask('file to log to', log);
    await this.#screen.endCopy();
    await this.#screen.notice('logging ended');
  }

  async #ask(question: string, use: (text: string) => Promise<void>): Promise<void> {
    if (this.#sending !== undefined) return this.#screen.notice('a file is being sent: Ctrl-C cancels it');
    this.#question = { answered: Promise.withResolvers(), use };
    this.#keys.ask();
    await this.#screen.ask(`${question}:`);
  }

  async #use(text: string): Promise<void> {
    const question = this.#question;
    this.#question = undefined;
    await this.#screen.freshLine();
    question?.answered.resolve();
    // As a shell has it.
    const home = this.#call.io.env['HOME'];
    if (text !== '') await question?.use(home === undefined ? text : text.replace(/^~(?=\/)/, home));
  }

  /** Starts it: keys are read meanwhile, since Ctrl-C cancels it. */
  async #sendFile(path: string, send: SendFile): Promise<void> {
    const sending = new AbortController();
    this.#sending = sending;
    const stop = AbortSignal.any([sending.signal, this.#stop]);
    const divert = (take: Divert): void => void (this.#divert = take);
    // If the terminal is gone, the next notice fails too.
    const progress = (text: string): void => void this.#screen.edit(text).catch(() => undefined);
    await this.#screen.notice(`sending ${safeText(path)}: Ctrl-C cancels`);
    this.#sent = this.#reported(`send ${safeText(path)}`, () =>
      send({ path, line: this.#line, stop, send: (piece) => this.#sendPacket(piece), divert, progress }),
    );
    this.#sent = this.#sent.finally(() => (this.#sending = undefined));
    this.#sent.catch((error: unknown) => this.#failed.reject(error));
  }
}
