/** monitor: the line as a terminal. Keys or lines to packets, the live log to the screen, notices in between. */
import Long from 'long';
import { pause } from '../../shared/base/clock.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { checkAnswer, type Service } from '../connection/service.ts';
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
/** How soon a lost port is said: people notice after a second or two. */
const statusMs = 1000;
/** After Ctrl-] the last keys still get their answers, for so long. */
const farewellMs = 1000;
const pollMs = 20;
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
  /** Of what was sent last. */
  #refused = false;
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
    const position = await this.#greet();
    const { io, stop } = this.#call;
    const settings = { clock: io.clock, stop: this.#stop, events: this.#readerEvents() };
    const events = {
      log: (batch: lineside.v1.LogBatch) => this.#show(batch),
      answered: (answer: serial.SendResponse) => this.#answered(answer),
    };
    const session = new LiveSession(service, position, settings, events);
    // Every key comes as it is, Ctrl-C too. After a crash Node resets the terminal when it exits.
    if (this.#isTerminal) io.stdin.setRawMode?.(true);
    try {
      await Promise.race([session.run(), this.#watchPort(service), this.#readInput(session), this.#failed.promise]);
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
    if (requested == null) checkAnswer({ status: 4, error: 'no port is open' });
    this.#line = requested ?? this.#line;
    this.#portState = portStateName(status.portState);
    const position = { afterId: status.log?.headId ?? Long.UZERO, logId: status.log?.logId ?? '' };
    if (!this.#isTerminal) return position;
    const { packetSize } = this.#line;
    const packets = packetSize === 0 ? '' : ` Keys are sent in packets of ${packetSize} bytes.`;
    const name = requested == null ? '' : `${safeText(requested.portName)} ${settingsText(requested)}`;
    await this.#screen.notice(`${name}, ${this.#portState}. Ctrl-] leaves, Ctrl-T ? lists the keys.${packets}`);
    return position;
  }

  #readerEvents() {
    const notice = (text: string): Promise<void> => this.#screen.notice(text);
    return {
      broken: (failure: Error) => notice(`connection lost: ${failure.message}. Trying again.`),
      restored: () => notice('connected again'),
      lost: (failure: Error) => notice(`entries are missing here: ${failure.message}`),
    };
  }

  async #readInput(session: LiveSession): Promise<never> {
    const { stdin, clock } = this.#call.io;
    const lines = new LineSplitter();
    await session.standing;
    for await (const part of stdin) {
      const data = Buffer.from(part as Uint8Array | string);
      if (!this.#isTerminal) for (const line of lines.push(data)) await this.#sendLine(session, line);
      else
        for (const typed of this.#keys.read(data))
          if (await this.#typed(session, typed)) return this.#farewell(session);
    }
    for (const line of lines.end()) await this.#sendLine(session, line);
    if (!this.#isTerminal) await pause(clock, this.#call.options.wait, this.#stop);
    return await this.#farewell(session);
  }

  #sendLine(session: LiveSession, line: Buffer): Promise<void> {
    return this.#send(session, Buffer.concat([line, this.#keys.enter]));
  }

  /** Answers whether to leave. */
  async #typed(session: LiveSession, typed: Typed): Promise<boolean> {
    if (typed.kind === 'edit') await this.#screen.edit(typed.echo);
    else if (typed.kind === 'answer') await this.#use(typed.text);
    else if (typed.kind === 'command') {
      if (typed.key === 'q') return true;
      await this.#command(session, typed.key);
    } else if (this.#sending === undefined) await this.#send(session, typed.bytes);
    else if (typed.bytes.includes(ctrlC)) this.#sending.abort(new CliFailure('refused', 'CANCELLED', 'cancelled'));
    return false;
  }

  async #farewell(session: LiveSession): Promise<never> {
    this.#sending?.abort(new CliFailure('refused', 'CANCELLED', 'cancelled'));
    this.#question?.answered.resolve();
    await this.#sent;
    await this.#settled(session);
    if (this.#held.length > 0)
      await this.#screen.notice(`${this.#held.length} bytes did not fill a packet and were not sent`);
    if (this.#isTerminal) await this.#screen.freshLine();
    this.#leave.abort();
    throw new Error('left');
  }

  /** Until what was sent has its answers, if they come soon. */
  async #settled(session: LiveSession): Promise<void> {
    const { clock } = this.#call.io;
    const until = clock.monoMs() + farewellMs;
    while (session.waiting > 0 && clock.monoMs() < until && !this.#stop.aborted) await pause(clock, pollMs, this.#stop);
  }

  async #send(session: LiveSession, bytes: Buffer): Promise<void> {
    await this.#screen.typed(bytes);
    for (const packet of this.#packets(bytes)) {
      if (await session.send(packet)) continue;
      this.#held = Buffer.alloc(0);
      return await this.#screen.notice('not sent: there is no connection');
    }
  }

  /** The bytes as packets; with a packet size, what does not fill one waits for more. */
  #packets(bytes: Buffer): Buffer[] {
    const { packetSize } = this.#line;
    const { whole, rest } = pieces(Buffer.concat([this.#held, bytes]), packetSize || maxPayloadBytes);
    this.#held = packetSize === 0 ? Buffer.alloc(0) : rest;
    return packetSize === 0 && rest.length > 0 ? [...whole, rest] : whole;
  }

  async #answered(answer: serial.SendResponse): Promise<void> {
    const refused = answer.status !== 0;
    if (refused && this.#sending !== undefined)
      this.#sending.abort(new CliFailure('refused', 'NOT_SENT', safeText(answer.error)));
    else if (refused && !this.#refused) await this.#screen.notice(`not sent: ${safeText(answer.error)}`);
    if (refused && !this.#isTerminal) this.#status = exitStatus.refused;
    this.#refused = refused;
  }

  async #show(batch: lineside.v1.LogBatch): Promise<void> {
    await this.#question?.answered.promise;
    for (const item of logItems(batch)) {
      const entry = item.kind === 'entry' ? item.value.entry : undefined;
      if (this.#divert === undefined || entry === undefined) await this.#screen.item(item);
      else if (directionName(entry.dir) === 'rx') this.#divert(entry.rawData);
    }
  }

  // The keys of the session.

  async #command(session: LiveSession, key: string): Promise<void> {
    const { look } = this.#screen;
    const sendFile = (how: SendFile) => this.#ask('file to send', (path) => this.#sendFile(session, path, how));
    const run: Readonly<Record<Exclude<SessionKey, 'q'>, () => Promise<void>>> = {
      '?': () => this.#screen.notice(`keys:\n${keyList.trimEnd()}`),
      b: () => this.#wire(session, 'send a break', this.#sendBreak),
      d: () => this.#wire(session, 'toggle DTR', () => this.#toggle('dtr')),
      r: () => this.#wire(session, 'toggle RTS', () => this.#toggle('rts')),
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
  async #wire(session: LiveSession, what: string, run: () => Promise<string>): Promise<void> {
    await this.#settled(session);
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
    if (!this.#screen.isCopied) return this.#ask('file to log to', (path) => this.#log(path));
    await this.#screen.endCopy();
    await this.#screen.notice('logging ended');
  }

  #log(path: string): Promise<void> {
    return this.#reported(`log to ${safeText(path)}`, async () => {
      await this.#screen.copyTo(path);
      return `logging to ${safeText(path)}`;
    });
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
  async #sendFile(session: LiveSession, path: string, send: SendFile): Promise<void> {
    const sending = new AbortController();
    this.#sending = sending;
    const stop = AbortSignal.any([sending.signal, this.#stop]);
    const divert = (take: Divert): void => void (this.#divert = take);
    // If the terminal is gone, the next notice fails too.
    const progress = (text: string): void => void this.#screen.edit(text).catch(() => undefined);
    await this.#screen.notice(`sending ${safeText(path)}: Ctrl-C cancels`);
    this.#sent = this.#reported(`send ${safeText(path)}`, () =>
      send({ path, line: this.#line, session, stop, divert, progress }),
    );
    this.#sent = this.#sent.finally(() => (this.#sending = undefined));
    this.#sent.catch((error: unknown) => this.#failed.reject(error));
  }

  /** Says when the port is lost and when it is back. */
  async #watchPort(service: Service): Promise<never> {
    const { io, timeoutMs } = this.#call;
    for (;;) {
      await pause(io.clock, statusMs, this.#stop);
      this.#stop.throwIfAborted();
      const { line } = await service.channel();
      const signal = AbortSignal.any([this.#stop, AbortSignal.timeout(timeoutMs)]);
      // A lost connection is the session's to say.
      const status = await line.getStatus({}, { signal }).catch(() => undefined);
      if (status !== undefined) await this.#portChanged(status);
    }
  }

  async #portChanged(status: lineside.v1.LineStatus): Promise<void> {
    const state = portStateName(status.portState);
    if (state === this.#portState || state === 'opening' || state === 'reopening' || state === 'closing') return;
    this.#portState = state;
    this.#line = status.requested ?? this.#line;
    const why = status.portError === '' ? '' : `: ${safeText(status.portError)}`;
    await this.#screen.notice(state === 'open' ? 'the port is open again' : `the port is ${state}${why}`);
  }
}
