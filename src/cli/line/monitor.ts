/** monitor: the line as a terminal. Keys or lines to packets, the live log to the screen, notices in between. */
import Long from 'long';
import { pause } from '../../shared/base/clock.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { checkAnswer, type Service } from '../connection/service.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { EntryPrinter, logItems } from '../output/entries.ts';
import { liveText, safeText } from '../output/hex.ts';
import { directionName, portStateName } from '../output/json.ts';
import { secondsAsMs } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { longestWaitSeconds, maxPayloadBytes, pieces } from './packets.ts';
import { LiveSession, type Position } from './reader.ts';
import { settingsText } from './settings.ts';

/** Ctrl-] leaves, as in telnet: it is the one key that no device's prompt needs. */
const leaveKey = 0x1d;

/** What the keys of one read mean: bytes to send, and whether they ask to leave. */
export function keysToSend(data: Uint8Array, enter: Uint8Array): { bytes: Buffer; leave: boolean } {
  const end = data.indexOf(leaveKey);
  const typed = end === -1 ? data : data.subarray(0, end);
  const parts: Uint8Array[] = [];
  let from = 0;
  for (let at = typed.indexOf(carriageReturn); at !== -1; at = typed.indexOf(carriageReturn, from)) {
    parts.push(typed.subarray(from, at), enter);
    from = at + 1;
  }
  parts.push(typed.subarray(from));
  return { bytes: Buffer.concat(parts), leave: end !== -1 };
}

/** What the Enter key gives in raw mode. */
const carriageReturn = 0x0d;

/** Lines of a text stream, without their ends; the last one counts without an end too. */
export class LineSplitter {
  #held: Buffer = Buffer.alloc(0);

  push(data: Uint8Array): Buffer[] {
    const all = Buffer.concat([this.#held, data]);
    const lines: Buffer[] = [];
    let from = 0;
    for (let at = all.indexOf(0x0a); at !== -1; at = all.indexOf(0x0a, from)) {
      const end = at > from && all[at - 1] === carriageReturn ? at - 1 : at;
      lines.push(all.subarray(from, end));
      from = at + 1;
    }
    this.#held = all.subarray(from);
    return lines;
  }

  end(): Buffer[] {
    const rest = this.#held;
    this.#held = Buffer.alloc(0);
    return rest.length === 0 ? [] : [rest];
  }
}

/** A device that answers a command does so within this, seen from a script. */
const usualWaitMs = 1000;

const options = [
  option('--hex', 'show hex, both directions'),
  option('--echo', 'show what is typed'),
  option('--enter <end>', 'what Enter sends', { choices: ['cr', 'lf', 'crlf'], usual: 'cr' }),
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
    help: 'talk to the device: keys go to the line, the line to the screen; Ctrl-] leaves',
    options,
    notes: 'Input that is no terminal is sent line by line, each with the end that --enter names.',
    examples: [
      'lineside monitor',
      'lineside monitor --hex --echo --enter crlf',
      'echo "ATI" | lineside monitor --wait 3',
    ],
    what: 'monitor the line',
    endsOnCtrlC: () => true,
    run: monitor,
  },
];

async function monitor(call: Call<MonitorOptions>): Promise<number> {
  if (call.options.hex === true && call.options.raw === true) throw usageFailure('--hex and --raw exclude each other');
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

class Monitor {
  readonly #call: Call<MonitorOptions>;
  readonly #isTerminal: boolean;
  readonly #leave = new AbortController();
  readonly #stop: AbortSignal;
  readonly #printer: EntryPrinter;
  #packetSize = 0;
  #held: Buffer = Buffer.alloc(0);
  #portState = '';
  #column = 0;
  #refused = false;
  #status: number = exitStatus.ok;

  constructor(call: Call<MonitorOptions>) {
    this.#call = call;
    this.#isTerminal = call.io.stdin.isTTY === true && call.io.stdin.setRawMode !== undefined;
    this.#stop = AbortSignal.any([call.stop, this.#leave.signal]);
    const width = call.out.width;
    this.#printer = new EntryPrinter({ view: 'both', width, colour: false, ids: false });
  }

  async run(): Promise<number> {
    const service = await this.#call.service();
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
      await Promise.race([session.run(), this.#watchPort(service), this.#readInput(session)]);
    } catch (error) {
      if (!this.#leave.signal.aborted || stop.aborted) throw error;
    } finally {
      this.#leave.abort();
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
    this.#packetSize = requested?.packetSize ?? 0;
    this.#portState = portStateName(status.portState);
    const position = { afterId: status.log?.headId ?? Long.UZERO, logId: status.log?.logId ?? '' };
    if (!this.#isTerminal) return position;
    const packets = this.#packetSize === 0 ? '' : ` Keys are sent in packets of ${this.#packetSize} bytes.`;
    const name = requested == null ? '' : `${safeText(requested.portName)} ${settingsText(requested)}`;
    await this.#notice(`${name}, ${this.#portState}. Ctrl-] leaves.${packets}`);
    return position;
  }

  #readerEvents() {
    return {
      broken: (failure: Error) => this.#notice(`connection lost: ${failure.message}. Trying again.`),
      restored: () => this.#notice('connected again'),
      lost: (failure: Error) => this.#notice(`entries are missing here: ${failure.message}`),
    };
  }

  async #readInput(session: LiveSession): Promise<never> {
    const { stdin, clock } = this.#call.io;
    const enter = enterBytes[this.#call.options.enter];
    const lines = new LineSplitter();
    await session.standing;
    for await (const part of stdin) {
      const data = Buffer.from(part as Uint8Array | string);
      if (this.#isTerminal) {
        const { bytes, leave } = keysToSend(data, enter);
        await this.#send(session, bytes);
        if (leave) return await this.#farewell(session);
      } else for (const line of lines.push(data)) await this.#send(session, Buffer.concat([line, enter]));
    }
    for (const line of lines.end()) await this.#send(session, Buffer.concat([line, enter]));
    if (!this.#isTerminal) await pause(clock, this.#call.options.wait, this.#stop);
    return await this.#farewell(session);
  }

  async #farewell(session: LiveSession): Promise<never> {
    const { clock } = this.#call.io;
    const until = clock.monoMs() + farewellMs;
    while (session.waiting > 0 && clock.monoMs() < until && !this.#stop.aborted) await pause(clock, pollMs, this.#stop);
    if (this.#held.length > 0) await this.#notice(`${this.#held.length} bytes did not fill a packet and were not sent`);
    if (this.#isTerminal) await this.#freshLine();
    this.#leave.abort();
    throw new Error('left');
  }

  async #send(session: LiveSession, bytes: Buffer): Promise<void> {
    if (this.#call.options.echo === true && this.#call.options.hex !== true) await this.#text(bytes);
    for (const packet of this.#packets(bytes)) {
      if (await session.send(packet)) continue;
      this.#held = Buffer.alloc(0);
      return await this.#notice('not sent: there is no connection');
    }
  }

  /** The bytes as packets; with a packet size, what does not fill one waits for more. */
  #packets(bytes: Buffer): Buffer[] {
    const { whole, rest } = pieces(Buffer.concat([this.#held, bytes]), this.#packetSize || maxPayloadBytes);
    this.#held = this.#packetSize === 0 ? Buffer.alloc(0) : rest;
    return this.#packetSize === 0 && rest.length > 0 ? [...whole, rest] : whole;
  }

  async #answered(answer: serial.SendResponse): Promise<void> {
    const refused = answer.status !== 0;
    if (refused && !this.#refused) await this.#notice(`not sent: ${safeText(answer.error)}`);
    if (refused && !this.#isTerminal) this.#status = exitStatus.refused;
    this.#refused = refused;
  }

  async #show(batch: lineside.v1.LogBatch): Promise<void> {
    const { hex, echo } = this.#call.options;
    for (const item of logItems(batch)) {
      const sent = item.kind === 'entry' && directionName(item.value.entry.dir) === 'tx';
      if (item.kind === 'gap') await this.#notice(this.#printer.item(item).trim());
      else if (hex === true) {
        if (!sent || echo === true) await this.#call.out.write(this.#printer.item(item));
      } else if (!sent) await this.#text(item.value.entry.rawData);
    }
  }

  async #text(data: Uint8Array): Promise<void> {
    const shown = this.#call.options.raw === true ? data : liveText(data);
    if (shown.length === 0) return;
    const last = typeof shown === 'string' ? shown.at(-1) : String.fromCharCode(shown.at(-1) ?? 0);
    this.#column = last === '\n' || last === '\r' ? 0 : 1;
    await this.#call.out.write(shown);
  }

  async #freshLine(): Promise<void> {
    if (this.#column !== 0 && this.#call.out.isTerminal) await this.#call.err.write('\n');
    this.#column = 0;
  }

  async #notice(text: string): Promise<void> {
    await this.#freshLine();
    await this.#call.err.write(`[lineside: ${text}]\n`);
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
    this.#packetSize = status.requested?.packetSize ?? this.#packetSize;
    const why = status.portError === '' ? '' : `: ${safeText(status.portError)}`;
    await this.#notice(state === 'open' ? 'the port is open again' : `the port is ${state}${why}`);
  }
}
