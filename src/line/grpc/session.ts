/** Session of lineside.v1.LineService: packets, commands, their answers, the received bytes and the live log on one stream. */
import type { Timer } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LineListener, LineState, Turn } from '../port/line.ts';
import type { EffectiveSettings, OutgoingLines, SettingsChange } from '../port/line-config.ts';
import type { ModemState, OpenPort } from '../port/open-port.ts';
import { sessionResponse } from './encode.ts';
import { MAX_SESSION_OUTSTANDING, MODEM_LOOK_MS } from './limits.ts';
import { readRequest } from './log-requests.ts';
import { sendBatches } from './log-streams.ts';
import { ReceivedQueue } from './received-queue.ts';
import { type ServiceContext, sendPacket } from './serial-service.ts';
import type { Outgoing, Subscription } from './subscriptions.ts';

const { CommandResult, EffectiveSettings: EffectiveMessage, PortState } = lineside.v1;
type Result = lineside.v1.CommandResult.$Properties;

/** One answer in their order, sent when the line is done with the packet or the command and those before it were sent. */
interface Slot {
  answer: Buffer | undefined;
  readonly sent: PromiseWithResolvers<void>;
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
  readonly #out: Outgoing;
  readonly #slots: Slot[] = [];
  /** Of Outgoing, at the last answer. */
  #full: Promise<void> | undefined;
  #received: ReceivedQueue | undefined;
  /** Until the stream has room. */
  #receivedWaits = false;
  #logBegun = false;
  /** Begins the received bytes, which wait for the end of the log. */
  #afterLog: (() => void) | undefined;
  /** It began a break, which is not to outlast it. */
  #breaking = false;
  /** Of the last break that was asked for: it waits for its turn, and its end for that. */
  #breakBegun: Promise<void> = Promise.resolve();
  /** Ends the line errors; undefined: they were not asked for. */
  #endErrors: (() => void) | undefined;
  readonly #atEnd: (() => void)[] = [];
  /** What is under way: the stream ends with the last of it, or with the first failure. */
  #underWay = 0;
  readonly #end = Promise.withResolvers<void>();
  /** Requests that were read already are not done any more: nothing would end a hold or a break. */
  #isOver = false;

  constructor(parts: ServiceContext, caller: SessionCaller, subscription: Subscription, out: Outgoing) {
    this.#parts = parts;
    this.#caller = caller;
    this.#subscription = subscription;
    this.#out = out;
  }

  /** Ends when the client has ended its side, every answer is out, and the log and the received bytes have ended; or by the signal. */
  async run(requests: AsyncIterable<lineside.v1.SessionRequest>): Promise<void> {
    this.#subscription.signal.addEventListener('abort', () => this.#end.resolve(), { once: true });
    this.#begin(this.#read(requests));
    try {
      await this.#end.promise;
    } finally {
      this.#isOver = true;
      this.#afterLog = undefined;
      for (const end of this.#atEnd) end();
      this.#endBreak();
      this.#watchErrors(false);
      this.#parts.hold.left(this.#caller.stream);
    }
  }

  #begin(work: Promise<void>): void {
    this.#underWay += 1;
    work.then(
      () => {
        this.#underWay -= 1;
        if (this.#underWay === 0) this.#end.resolve();
      },
      // A client that disconnected fails its reader too; the signal reports that already.
      (error: unknown) => (this.#subscription.signal.aborted ? this.#end.resolve() : this.#end.reject(error)),
    );
  }

  async #read(requests: AsyncIterable<lineside.v1.SessionRequest>): Promise<void> {
    for await (const { send, log, receive, command } of requests) {
      while (this.#slots.length >= MAX_SESSION_OUTSTANDING) await this.#slots[0]?.sent.promise;
      // A client that takes no answers sends no more packets.
      await this.#full;
      if (this.#subscription.signal.aborted || this.#isOver) return;
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
    return { caller: this.#caller.stream, signal: this.#subscription.signal, deadlineMs: undefined };
  }

  /** In the order of the requests. */
  #answerWith(answer: Promise<Buffer>): void {
    const slot: Slot = { answer: undefined, sent: Promise.withResolvers() };
    this.#slots.push(slot);
    this.#begin(slot.sent.promise);
    answer.then((message) => {
      slot.answer = message;
      this.#sendAnswers();
    }, slot.sent.reject);
  }

  #sendAnswers(): void {
    for (let first = this.#slots[0]; first?.answer !== undefined; first = this.#slots[0]) {
      this.#slots.shift();
      this.#full = this.#out.send(first.answer);
      first.sent.resolve();
    }
  }

  #follow(request: lineside.v1.ReadLogRequest): void {
    if (this.#logBegun) throw new LinesideError('INVALID_ARGUMENT', 'log: has begun on this stream already');
    const { log } = this.#parts;
    const read = readRequest(request, log.logId);
    if (this.#afterLog !== undefined && !read.follow)
      throw new LinesideError(
        'INVALID_ARGUMENT',
        'log.follow: must be set after receive.after_log, which waits for it',
      );
    const out: Outgoing = {
      send: (batch) => {
        const message = sessionResponse('log', batch);
        return this.#received?.behind(message) ?? this.#out.send(message);
      },
      endStalled: () => this.#out.endStalled(),
    };
    const sent = sendBatches(log, read, this.#subscription, out, () => this.#afterLog?.());
    this.#logBegun = true;
    this.#begin(sent);
  }

  #receive({ modemLines, afterLog }: lineside.v1.ReceiveRequest): void {
    if (this.#received !== undefined)
      throw new LinesideError('INVALID_ARGUMENT', 'receive: has begun on this stream already');
    if (afterLog && this.#logBegun)
      throw new LinesideError('INVALID_ARGUMENT', 'receive.after_log: the log has begun on this stream already');
    const queue = new ReceivedQueue(() => this.#sendReceived(queue));
    this.#received = queue;
    // It ends with the stream alone.
    this.#underWay += 1;
    const begin = (): void => {
      this.#afterLog = undefined;
      this.#listen(queue, afterLog);
      if (modemLines) this.#watchModemLines(queue);
    };
    if (afterLog) this.#afterLog = begin;
    else begin();
  }

  /** `fromEntry`: from the end of the last entry of the log. */
  #listen(queue: ReceivedQueue, fromEntry: boolean): void {
    const { line } = this.#parts;
    queue.add({ portState: portStateOf(line.snapshot().state) });
    const listener: LineListener = {
      received: (bytes, errors = []) => {
        if (this.#endErrors !== undefined && errors.length > 0) queue.add({ lineErrors: { errors: [...errors] } });
        queue.add(bytes);
      },
      state: (state) => queue.add({ portState: portStateOf(state) }),
      settings: (effective) => queue.add({ settings: effectiveMessage(effective) }),
    };
    this.#atEnd.push(line.listen(listener, fromEntry), () => queue.end());
  }

  #sendReceived(queue: ReceivedQueue): void {
    if (this.#receivedWaits) return;
    for (let message = queue.take(); message !== undefined; message = queue.take()) {
      const full = this.#out.send(message);
      if (full === undefined) continue;
      this.#receivedWaits = true;
      void full.then(() => {
        this.#receivedWaits = false;
        this.#sendReceived(queue);
      });
      return;
    }
    if (queue.lostBytes > 0)
      this.#end.reject(new LinesideError('LOG_LOST', `${queue.lostBytes} received bytes were not taken in time`));
  }

  #watchModemLines(queue: ReceivedQueue): void {
    const { line, clock } = this.#parts;
    let before: ModemState | undefined;
    let timer: Timer;
    const uncounted = new Set<string>();
    const look = (): void => {
      timer = clock.timer(MODEM_LOOK_MS, look);
      const now = attempt(() => line.openPort().modemState(before));
      const change = now && modemChange(before, now, uncounted);
      if (change !== undefined) queue.add({ modemLines: change });
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
    if (transmit) port.traffic.purgeTransmit(this.#caller.stream);
    if (received) this.#purgeReceived(port);
  }

  #purgeReceived(port: OpenPort): void {
    const waits = this.#receivedWaits;
    // What arrives now is not sent either.
    this.#receivedWaits = true;
    port.device.takeArrived();
    this.#received?.purge();
    this.#receivedWaits = waits;
    if (this.#received !== undefined) this.#sendReceived(this.#received);
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
    if (this.#isOver) this.#endBreak();
  }

  #endBreak(): void {
    if (!this.#breaking) return;
    this.#breaking = false;
    attempt(() => this.#parts.line.openPort().device.endBreak());
  }
}

/** undefined: nothing changed. `uncounted`: lines whose last change was seen before the driver has counted it, if it ever does. */
function modemChange(
  before: ModemState | undefined,
  now: ModemState,
  uncounted: Set<string>,
): lineside.v1.ModemChange.$Properties | undefined {
  if (before === undefined) return { lines: now.lines };
  const names = ['cts', 'dsr', 'dcd', 'ri'] as const;
  // What differs, and where the driver counts also what came and went between two looks.
  const changes = Object.fromEntries(
    names.map((name) => {
      const [from, to] = [before.changes?.[name], now.changes?.[name]];
      const seen = before.lines[name] === now.lines[name] ? 0 : 1;
      const counted = from === undefined || to === undefined ? 0 : (to - from) >>> 0;
      const left = counted - (uncounted.has(name) ? 1 : 0);
      uncounted[seen > left ? 'add' : 'delete'](name);
      return [name, Math.max(seen, left)];
    }),
  );
  const isSame = names.every((name) => changes[name] === 0);
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
