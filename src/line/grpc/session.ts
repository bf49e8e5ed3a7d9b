/** Session of lineside.v1.LineService: packets, commands, their answers, the received bytes and the live log on one stream. */
import type { Timer } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LineState, Turn } from '../port/line.ts';
import type { EffectiveSettings, OutgoingLines, SettingsChange } from '../port/line-config.ts';
import type { ModemState, OpenPort } from '../port/open-port.ts';
import { readBatches } from './batches.ts';
import { sessionResponse } from './encode.ts';
import { MAX_SESSION_OUTSTANDING, MODEM_LOOK_MS } from './limits.ts';
import { readRequest } from './log-requests.ts';
import { ReceivedQueue } from './received-queue.ts';
import { type ServiceContext, sendPacket } from './serial-service.ts';
import type { Subscription } from './subscriptions.ts';

const { CommandResult, EffectiveSettings: EffectiveMessage, PortState } = lineside.v1;
type Result = lineside.v1.CommandResult.$Properties;

/** One answer in their order, filled when the line is done with the packet or the command. */
interface Slot {
  answer: Buffer | undefined;
}

/** `stream`: of this Session alone; `name`: of its token. */
interface SessionCaller {
  readonly stream: string;
  readonly name: string;
}

/**
 * One Session stream: packets and commands in, their answers out in the same order; the received bytes and the live log between
 * them. A packet goes to the line in the step that decoded it, and its answer is sent in the step that the line gave it.
 */
export class Session {
  readonly #parts: ServiceContext;
  readonly #caller: SessionCaller;
  readonly #subscription: Subscription;
  readonly #signal: AbortSignal;
  readonly #slots: Slot[] = [];
  /** The next batch of the log, until the client takes it: its reader makes no other before. */
  #batch: Buffer | undefined;
  #received: ReceivedQueue | undefined;
  #reading = true;
  #following = false;
  #logBegun = false;
  /** It began a break, which is not to outlast it. */
  #breaking = false;
  /** Of the last break that was asked for: it waits for its turn, and its end for that. */
  #breakBegun: Promise<void> = Promise.resolve();
  /** Ends the line errors; undefined: they were not asked for. */
  #endErrors: (() => void) | undefined;
  #failure: unknown;
  readonly #atEnd: (() => void)[] = [];
  /** The next change: something to hand over, room for a packet, a batch that was taken. Who waits checks its own condition again. */
  #change = Promise.withResolvers<void>();

  constructor(parts: ServiceContext, caller: SessionCaller, subscription: Subscription) {
    this.#parts = parts;
    this.#caller = caller;
    this.#subscription = subscription;
    this.#signal = subscription.signal;
  }

  /** Ends when the client has ended its side, every answer is out, and the log and the received bytes have ended; or by the signal. */
  async *run(requests: AsyncIterable<lineside.v1.SessionRequest>): AsyncGenerator<Buffer, void, undefined> {
    this.#signal.addEventListener('abort', () => this.#changed(), { once: true });
    void this.#watch(this.#read(requests), () => {
      this.#reading = false;
    });
    try {
      for (;;) {
        const answer = this.#slots[0]?.answer;
        if (answer !== undefined) {
          this.#slots.shift();
          this.#changed();
          yield answer;
        }
        const received = this.#received?.take();
        if (received !== undefined) yield received;
        const batch = this.#batch;
        if (batch !== undefined) {
          yield batch;
          this.#batch = undefined;
          this.#changed();
        }
        if (answer !== undefined || received !== undefined || batch !== undefined) continue;
        if (this.#isOver()) return;
        await this.#change.promise;
      }
    } finally {
      for (const end of this.#atEnd) end();
      this.#endBreak();
      this.#watchErrors(false);
      this.#parts.hold.left(this.#caller.stream);
    }
  }

  /** Nothing is there to be handed over. Throws the failure that ends the stream. */
  #isOver(): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    const lost = this.#received?.lostBytes ?? 0;
    if (lost > 0) throw new LinesideError('LOG_LOST', `${lost} received bytes were not taken in time`);
    if (this.#signal.aborted) return true;
    return !this.#reading && !this.#following && this.#received === undefined && this.#slots.length === 0;
  }

  async #read(requests: AsyncIterable<lineside.v1.SessionRequest>): Promise<void> {
    const signal = this.#signal;
    for await (const { send, log, receive, command } of requests) {
      while (this.#slots.length >= MAX_SESSION_OUTSTANDING && !signal.aborted) await this.#change.promise;
      if (signal.aborted) return;
      if (send) this.#send(send);
      else if (log) this.#follow(log);
      else if (receive) this.#receive(receive);
      else if (command) this.#command(command);
      else throw new LinesideError('INVALID_ARGUMENT', 'request: neither send, log, receive nor command');
    }
  }

  #send(packet: serial.Packet): void {
    const sent = sendPacket(this.#parts, packet, this.#turn());
    this.#answerWith(sent.then((answer) => sessionResponse('sent', serial.SendResponse.encode(answer).finish())));
  }

  #turn(): Turn {
    return { caller: this.#caller.stream, signal: this.#signal, deadlineMs: undefined };
  }

  /** In the order of the requests. */
  #answerWith(answer: Promise<Buffer>): void {
    const slot: Slot = { answer: undefined };
    this.#slots.push(slot);
    void this.#watch(
      answer.then((message) => {
        slot.answer = message;
      }),
    );
  }

  #follow(request: lineside.v1.ReadLogRequest): void {
    if (this.#logBegun) throw new LinesideError('INVALID_ARGUMENT', 'log: has begun on this stream already');
    const { log, subscriptions } = this.#parts;
    const isShared = (): boolean => subscriptions.count > 1;
    const batches = readBatches(log, readRequest(request, log.logId), this.#subscription, isShared);
    this.#logBegun = true;
    this.#following = true;
    void this.#watch(this.#pump(batches), () => {
      this.#following = false;
    });
  }

  async #pump(batches: AsyncIterable<Buffer>): Promise<void> {
    const signal = this.#signal;
    for await (const batch of batches) {
      this.#batch = sessionResponse('log', batch);
      this.#changed();
      while (this.#batch !== undefined && !signal.aborted) await this.#change.promise;
      if (signal.aborted) return;
    }
  }

  #receive({ modemLines }: lineside.v1.ReceiveRequest): void {
    if (this.#received !== undefined)
      throw new LinesideError('INVALID_ARGUMENT', 'receive: has begun on this stream already');
    const queue = new ReceivedQueue(() => this.#changed());
    this.#received = queue;
    const { line } = this.#parts;
    queue.event({ portState: portStateOf(line.snapshot().state) });
    const stop = line.listen({
      received: (bytes, errors = []) => {
        if (this.#endErrors !== undefined && errors.length > 0) queue.event({ lineErrors: { errors: [...errors] } });
        queue.received(bytes);
      },
      state: (state) => queue.event({ portState: portStateOf(state) }),
      settings: (effective) => queue.event({ settings: effectiveMessage(effective) }),
    });
    this.#atEnd.push(stop);
    if (modemLines) this.#watchModemLines(queue);
  }

  #watchModemLines(queue: ReceivedQueue): void {
    const { line, clock } = this.#parts;
    let before: ModemState | undefined;
    let timer: Timer;
    const look = (): void => {
      timer = clock.timer(MODEM_LOOK_MS, look);
      const now = attempt(() => line.openPort().modemState(before));
      const change = now && modemChange(before, now);
      if (change !== undefined) queue.event({ modemLines: change });
      before = now;
    };
    look();
    this.#atEnd.push(() => timer.cancel());
  }

  #command(command: lineside.v1.LineCommand): void {
    let result: Result = {};
    const done = this.#parts.errorMapper.inContract(async () => {
      result = await this.#carryOut(command);
    });
    this.#answerWith(
      done.then((answer) => sessionResponse('done', CommandResult.encode({ ...answer, ...result }).finish())),
    );
  }

  async #carryOut(command: lineside.v1.LineCommand): Promise<Result> {
    const { hold, line } = this.#parts;
    const { stream } = this.#caller;
    if (command.hold) return this.#hold(command.hold.ticket);
    if (command.release) {
      hold.release(stream);
      return {};
    }
    // Fields of a oneof that were not sent are null in the generated class.
    if (typeof command.lineErrors === 'boolean') {
      if (command.lineErrors) hold.check(stream);
      this.#watchErrors(command.lineErrors);
      return {};
    }
    const port = line.openPort();
    if (command.drain) {
      await port.drain(this.#turn());
      return {};
    }
    hold.check(stream);
    if (command.settings) return this.#changeSettings(port, command.settings);
    if (command.modemLines)
      return { modemLines: await port.setModemLines(this.#turn(), outgoingLines(command.modemLines)) };
    if (command.purge) this.#purge(port, command.purge);
    else if (command.break === true) await (this.#breakBegun = this.#beginBreak(port));
    else if (command.break === false) {
      await this.#breakBegun.catch(() => undefined);
      this.#endBreak();
    } else throw new LinesideError('INVALID_ARGUMENT', 'command: is none that is known');
    return {};
  }

  async #hold(asked: string): Promise<Result> {
    const { hold, line } = this.#parts;
    const { stream, name } = this.#caller;
    const ticket = hold.take(stream, name, asked);
    const taken = new LinesideError('NOT_SENT', `the line was taken by ${name}`);
    // Without an open port, or one that is lost now, nothing of others waits.
    await attempt(() => line.openPort())
      ?.takeOver(this.#turn(), taken)
      .catch(() => undefined);
    return { ticket };
  }

  async #changeSettings(port: OpenPort, asked: lineside.v1.ChangeSettings): Promise<Result> {
    const effective = await port.changeSettings(this.#turn(), settingsChange(asked), asked.drain);
    if (asked.purgeReceived) this.#purgeReceived(port);
    return { effective: effectiveMessage(effective) };
  }

  #purge(port: OpenPort, { received, transmit }: lineside.v1.Purge): void {
    if (transmit) port.purgeTransmit(this.#caller.stream);
    if (received) this.#purgeReceived(port);
  }

  #purgeReceived(port: OpenPort): void {
    port.takeArrived();
    this.#received?.purge();
  }

  #watchErrors(on: boolean): void {
    if (!on) {
      this.#endErrors?.();
      this.#endErrors = undefined;
    } else if (this.#received === undefined)
      throw new LinesideError('INVALID_ARGUMENT', 'line_errors: receive has not begun');
    else this.#endErrors ??= this.#parts.line.watchErrors();
  }

  async #beginBreak(port: OpenPort): Promise<void> {
    await port.beginBreak(this.#turn());
    this.#breaking = true;
    if (this.#signal.aborted) this.#endBreak();
  }

  #endBreak(): void {
    if (!this.#breaking) return;
    this.#breaking = false;
    attempt(() => this.#parts.line.openPort().endBreak());
  }

  /** The end of the work is a change; the first failure ends the stream. */
  async #watch(work: Promise<void>, after?: () => void): Promise<void> {
    try {
      await work;
    } catch (error) {
      // A client that disconnected fails its reader too; the signal reports that already.
      if (!this.#signal.aborted) this.#failure ??= error;
    }
    after?.();
    this.#changed();
  }

  #changed(): void {
    this.#change.resolve();
    this.#change = Promise.withResolvers();
  }
}

/** undefined: nothing changed. */
function modemChange(before: ModemState | undefined, now: ModemState): lineside.v1.ModemChange.$Properties | undefined {
  if (before === undefined) return { lines: now.lines };
  const names = ['cts', 'dsr', 'dcd', 'ri'] as const;
  // A driver that does not count shows what differs; one that does also what came and went between two looks.
  const changes = Object.fromEntries(
    names.map((name) => {
      const [from, to] = [before.changes?.[name], now.changes?.[name]];
      const seen = before.lines[name] === now.lines[name] ? 0 : 1;
      return [name, from === undefined || to === undefined ? seen : (to - from) >>> 0];
    }),
  );
  const isSame = names.every((name) => changes[name] === 0 && before.lines[name] === now.lines[name]);
  return isSame ? undefined : { lines: now.lines, changes };
}

function settingsChange(asked: lineside.v1.ChangeSettings): SettingsChange {
  const { baudRate, dataBits, parity, stopBits, flowControl } = asked;
  const named = Object.entries({ baudRate, dataBits, parity, stopBits, flowControl });
  // `optional` fields that were not sent are null in the generated class.
  return Object.fromEntries(named.filter(([, value]) => value !== null)) as SettingsChange;
}

export function outgoingLines({ dtr, rts }: lineside.v1.SetModemLinesRequest): OutgoingLines {
  // As above.
  return { ...(typeof dtr === 'boolean' && { dtr }), ...(typeof rts === 'boolean' && { rts }) };
}

export function portStateOf(state: LineState): lineside.v1.PortState {
  return PortState[`PORT_STATE_${state.toUpperCase() as Uppercase<LineState>}`];
}

function effectiveMessage(effective: EffectiveSettings): lineside.v1.EffectiveSettings {
  return EffectiveMessage.fromObject({ ...effective });
}

/** undefined where the port is not open now, or has no such thing. */
function attempt<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch {
    return undefined;
  }
}
