/** RFC 2217 (serial port over telnet) for one client: what it asks for becomes commands of a port, and their results its answers. */
import { lineside } from '../../shared/proto/services.ts';
import { IAC, negotiation, subnegotiation, type TelnetItem, TelnetParser, telnetData, type Verb } from './telnet.ts';

type Command = lineside.v1.LineCommand.$Properties;
type Modem = Partial<Record<'dtr' | 'rts' | Incoming, boolean | null>>;

/** The port as this needs it; the calls are done in their order. */
export interface ControlledPort {
  send(bytes: Uint8Array): Promise<unknown>;
  /** Rejects with PortRefusal where the box refuses it. */
  command(command: Command): Promise<{ readonly effective?: Settings | null }>;
}

/** Numbers of serial.Parity, serial.StopBits and FlowControl. */
type Settings = Pick<lineside.v1.EffectiveSettings, 'baudRate' | 'dataBits' | 'parity' | 'stopBits' | 'flowControl'>;

const BINARY = 0;
const ECHO = 1;
const SUPPRESS_GO_AHEAD = 3;
const COM_PORT = 44;
/** Of these the server says WILL and DO; of all others it wants nothing. */
const ours: ReadonlySet<number> = new Set([BINARY, ECHO, SUPPRESS_GO_AHEAD, COM_PORT]);
const theirs: ReadonlySet<number> = new Set([BINARY, SUPPRESS_GO_AHEAD, COM_PORT]);

/** Options of COM-PORT; the server's answer has this added. */
const ANSWER = 100;
const option = {
  signature: 0,
  baudRate: 1,
  dataBits: 2,
  parity: 3,
  stopBits: 4,
  control: 5,
  lineState: 6,
  modemState: 7,
  suspend: 8,
  resume: 9,
  lineStateMask: 10,
  modemStateMask: 11,
  purge: 12,
} as const;

/** By the numbers of serial.Parity and serial.StopBits: those of the RFC. */
const parityCodes = [1, 3, 2, 4, 5];
const stopCodes = [1, 3, 2];
/** By the numbers of FlowControl. */
const flowCodes = [1, 3, 2];
const flowControls: Readonly<Record<number, number>> = { 1: 0, 2: 2, 3: 1, 14: 0, 15: 2, 16: 1 };
/** Values of `control` that switch something on or off. */
const switches: Readonly<Record<number, Command>> = {
  5: { break: true },
  6: { break: false },
  8: { modemLines: { dtr: true } },
  9: { modemLines: { dtr: false } },
  11: { modemLines: { rts: true } },
  12: { modemLines: { rts: false } },
};
const ASK_FLOW = 0;
const ASK_BREAK = 4;
const ASK_DTR = 7;
const ASK_RTS = 10;
const ASK_FLOW_IN = 13;
const FLOW_IN = 13;

const modemBits = { cts: 0x10, dsr: 0x20, ri: 0x40, dcd: 0x80 } as const;
const changeBits = { cts: 0x01, dsr: 0x02, ri: 0x04, dcd: 0x08 } as const;
type Incoming = keyof typeof modemBits;

const { Fault } = lineside.v1.LineError;
/** NOTIFY-LINESTATE, as the line status register of a 16550. */
const lineStates: Readonly<Record<lineside.v1.LineError.Fault, number>> = {
  [Fault.PARITY_OR_FRAMING]: 0x04 | 0x08,
  [Fault.PARITY]: 0x04,
  [Fault.FRAMING]: 0x08,
  [Fault.BREAK]: 0x10,
  [Fault.OVERRUN]: 0x02,
};
/** The others (data ready, transmitter empty) would change with every byte. */
const LINE_ERRORS = 0x1e;

interface Rfc2217Options {
  readonly port: ControlledPort;
  readonly signature: string;
  /** To the client. */
  readonly write: (bytes: Uint8Array) => void;
  /** The client takes data again. */
  readonly onResume: () => void;
}

export class Rfc2217 {
  readonly #port: ControlledPort;
  readonly #write: (bytes: Uint8Array) => void;
  readonly #signature: string;
  readonly #onResume: () => void;
  readonly #parser = new TelnetParser();
  #settings: Settings = new lineside.v1.EffectiveSettings();
  #comPort = false;
  readonly #said = new Set<string>();
  #modem: Modem = {};
  #modemMask = 0xff;
  #lineMask = 0;
  #breaking = false;
  /** Until what was asked so far is done: answers come in the order of the questions. */
  #asked: Promise<unknown> = Promise.resolve();
  #suspended = false;

  constructor({ port, signature, write, onResume }: Rfc2217Options) {
    this.#port = port;
    this.#signature = signature;
    this.#write = write;
    this.#onResume = onResume;
    for (const known of theirs) this.#say('do', known);
    for (const known of ours) if (known !== ECHO) this.#say('will', known);
  }

  /** The client asked for nothing to be sent for now: received() waits for that. */
  get suspended(): boolean {
    return this.#suspended;
  }

  /** Bytes from the client, after checkTelnet(). */
  take(bytes: Uint8Array): void {
    for (const item of this.#parser.push(bytes)) this.#item(item);
  }

  /** Bytes that the port received. */
  received(bytes: Uint8Array): void {
    this.#write(telnetData(bytes));
  }

  /** The port's settings have changed. */
  settingsAre(settings: Settings): void {
    this.#settings = settings;
  }

  modemLines({ lines, changes }: lineside.v1.ModemChange.$Properties): void {
    const { dtr = false, rts = false, cts = false, dsr = false, dcd = false, ri = false } = lines ?? {};
    this.#modem = { dtr, rts, cts, dsr, dcd, ri };
    this.#notifyModem(changes ?? {});
  }

  lineErrors({ errors }: lineside.v1.LineErrors.$Properties): void {
    const state = (errors ?? []).reduce((bits, { kind }) => bits | lineStates[kind ?? Fault.PARITY_OR_FRAMING], 0);
    if ((state & this.#lineMask) !== 0) this.#answer(option.lineState, Uint8Array.of(state & this.#lineMask));
  }

  #item(item: TelnetItem): void {
    if (item.kind === 'negotiate') return this.#negotiate(item.verb, item.option);
    if (item.kind === 'sub') {
      if (item.option !== COM_PORT) return;
      // pyserial leaves its own offer out if the server's comes first.
      this.#useComPort();
      this.#subnegotiate(item.value);
    } else void this.#port.send(item.bytes.slice()).catch(ignore);
  }

  #negotiate(verb: Verb, which: number): void {
    if (verb === 'will') this.#say(theirs.has(which) ? 'do' : 'dont', which);
    if (verb === 'do') this.#say(ours.has(which) ? 'will' : 'wont', which);
    if (which === COM_PORT && (verb === 'will' || verb === 'do')) this.#useComPort();
  }

  #useComPort(): void {
    if (this.#comPort) return;
    this.#comPort = true;
    this.#notifyModem({});
  }

  /** Once: an answer to an answer would have no end. */
  #say(verb: Verb, which: number): void {
    const said = `${verb} ${which}`;
    if (this.#said.has(said)) return;
    this.#said.add(said);
    this.#write(negotiation(verb, which));
  }

  #subnegotiate(all: Uint8Array): void {
    const [code, ...rest] = all;
    const value = Uint8Array.from(rest);
    const first = value[0] ?? 0;
    switch (code) {
      case option.signature:
        if (value.length === 0) this.#answer(code, Buffer.from(this.#signature));
        return;
      case option.baudRate:
        return this.#baudRate(value);
      case option.dataBits:
        return this.#setting(code, first === 0 ? {} : { dataBits: first }, (now) => now.dataBits);
      case option.parity:
        return this.#setting(code, numbered('parity', parityCodes, first), (now) => parityCodes[now.parity]);
      case option.stopBits:
        return this.#setting(code, numbered('stopBits', stopCodes, first), (now) => stopCodes[now.stopBits]);
      case option.control:
        return this.#control(first);
      case option.suspend:
        this.#suspended = true;
        return;
      case option.resume:
        this.#suspended = false;
        return this.#onResume();
      case option.lineStateMask:
        // A box whose port has no line errors reports none.
        return this.#ask({ lineErrors: (first & LINE_ERRORS) !== 0 }, () => {
          this.#lineMask = first;
          this.#answer(code, Uint8Array.of(first));
        });
      case option.modemStateMask:
        this.#modemMask = first;
        return this.#answer(code, Uint8Array.of(this.#modemMask));
      case option.purge:
        return this.#purge(first);
      default:
        // Nothing that a serial port has.
        return;
    }
  }

  #baudRate(value: Uint8Array): void {
    if (value.length !== 4) return;
    const asked = Buffer.from(value).readUInt32BE(0);
    this.#ask(asked === 0 ? undefined : { settings: { baudRate: asked } }, () => {
      const now = Buffer.alloc(4);
      now.writeUInt32BE(this.#settings.baudRate);
      this.#answer(option.baudRate, now);
    });
  }

  #setting(code: number, changes: Partial<Settings>, now: (settings: Settings) => number | undefined): void {
    const command = Object.keys(changes).length === 0 ? undefined : { settings: changes };
    this.#ask(command, () => this.#answer(code, Uint8Array.of(now(this.#settings) ?? 0)));
  }

  #control(value: number): void {
    const answer = (now: number): void => this.#answer(option.control, Uint8Array.of(now));
    const flow = flowControls[value];
    const flowNow = (): number => (flowCodes[this.#settings.flowControl] ?? 1) + (value >= FLOW_IN ? FLOW_IN : 0);
    if (flow !== undefined) return this.#ask({ settings: { flowControl: flow } }, () => answer(flowNow()));
    const command = switches[value];
    // Where the port has no such line or break, there is nothing that could differ from what was asked.
    if (command !== undefined)
      return this.#ask(command, () => {
        this.#switched(command);
        answer(value);
      });
    // Questions wait for what was asked before them.
    if (value === ASK_FLOW || value === ASK_FLOW_IN) this.#ask(undefined, () => answer(flowNow()));
    if (value === ASK_BREAK) this.#ask(undefined, () => answer(this.#breaking ? 5 : 6));
    if (value === ASK_DTR) this.#ask(undefined, () => answer(this.#modem.dtr === false ? 9 : 8));
    if (value === ASK_RTS) this.#ask(undefined, () => answer(this.#modem.rts === false ? 12 : 11));
  }

  #switched({ modemLines, break: on }: Command): void {
    const { dtr = this.#modem.dtr ?? null, rts = this.#modem.rts ?? null } = modemLines ?? {};
    this.#modem = { ...this.#modem, dtr, rts };
    this.#breaking = on ?? this.#breaking;
  }

  #purge(which: number): void {
    const purge = { received: (which & 1) !== 0, transmit: (which & 2) !== 0 };
    this.#ask({ purge }, () => this.#answer(option.purge, Uint8Array.of(which)));
  }

  /** Answers when the port has done it, or refused it: the answer says how things are then. */
  #ask(command: Command | undefined, answer: () => void): void {
    const done = command === undefined ? undefined : this.#port.command(command);
    this.#asked = Promise.allSettled([done, this.#asked]).then(([outcome]) => {
      const effective = outcome.status === 'fulfilled' ? outcome.value?.effective : undefined;
      if (effective != null) this.#settings = effective;
      answer();
    });
  }

  #answer(code: number, value: Uint8Array): void {
    this.#write(subnegotiation(COM_PORT, Buffer.concat([Uint8Array.of(code + ANSWER), value])));
  }

  #notifyModem(changes: lineside.v1.ModemChanges.$Properties): void {
    if (!this.#comPort) return;
    const names = Object.keys(modemBits) as Incoming[];
    const state = names.reduce(
      (bits, name) => bits | (this.#modem[name] ? modemBits[name] : 0) | (changes[name] ? changeBits[name] : 0),
      0,
    );
    const isFirst = Object.keys(changes).length === 0;
    if (isFirst || (state & this.#modemMask) !== 0)
      this.#answer(option.modemState, Uint8Array.of(state & this.#modemMask));
  }
}

/** Throws unless a client begins with telnet: a browser, a scanner, a program that wants a raw connection does not. */
export function checkTelnet(first: Uint8Array): void {
  const [item] = new TelnetParser().push(first);
  // A command may be cut after its first byte.
  if (item === undefined ? first[0] !== IAC : item.kind !== 'negotiate') throw new Error('it does not speak telnet');
}

/** The change that a code of the RFC asks for; none: a question, or a code that is unknown. */
function numbered(name: 'parity' | 'stopBits', codes: readonly number[], code: number): Partial<Settings> {
  const number = codes.indexOf(code);
  return number < 0 ? {} : { [name]: number };
}

/** A packet that was not sent is reported by the port's owner. */
function ignore(): void {}
