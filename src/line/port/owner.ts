/**
 * The port owner opens, closes, loses and reopens the port. The pure state machine (state.ts) decides each step; the owner
 * carries out its effects, one after the other.
 */
import { backoffMs } from '../../shared/base/backoff.ts';
import { BurstLog } from '../../shared/base/burst-log.ts';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { asLinesideError, LinesideError, messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { LineRecorder } from '../log/log-api.ts';
import type { Inventory, Port } from './inventory.ts';
import {
  type LastBytes,
  type LineCounters,
  type LineListener,
  type LineSnapshot,
  type LineState,
  type ModemLines,
  newCounters,
  type ReceivedPacket,
  type SendRequest,
  type Turn,
} from './line.ts';
import {
  changedConfig,
  type LineConfig,
  type LineSettings,
  type OpenRequest,
  type OutgoingLines,
  type SettingsChange,
  settingsText,
  validateOpen,
} from './line-config.ts';
import type { LineMemory } from './line-memory.ts';
import type { Device } from './linux/tty.ts';
import { MAX_BREAK_MS, type OpenDevice, Opener, OpenPort, type Outcome } from './open-port.ts';
import { PacketBuffer } from './receive-buffer.ts';
import { type Effect, type Input, logLine, type State, step, type Target } from './state.ts';
import { type LineLimits, Traffic } from './traffic.ts';

/** A lost port is tried again after 0.25 s, then after twice the time, up to 5 s; at once when a port appears. */
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 5_000;
/** Opens that wait for the one under way: people who press a key again, not a load. */
const MAX_WAITING_OPENS = 16;

const { CLOSED, OPENED, SETTINGS_CHANGED } = lineside.v1.RecordedEvent.Kind;

interface OwnerOptions extends LineLimits {
  readonly inventory: Pick<Inventory, keyof Inventory>;
  readonly openDevice: OpenDevice;
  /** Throws SETTING_REFUSED for what the port's driver cannot do; touches nothing. */
  readonly checkSettings: (port: Port, settings: LineSettings) => void;
  readonly log: LineRecorder;
  readonly memory: LineMemory;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly rxBufferBytes: number;
  readonly rxBufferPackets: number;
  readonly txQueuePackets: number;
  readonly txQueueBytes: number;
}

/** The line as the API sees it. Failures are LinesideErrors; their codes are named at each method. */
export type Line = Omit<Pick<PortOwner, keyof PortOwner>, 'resume' | 'stop' | 'limit'>;

export class PortOwner {
  readonly #options: OwnerOptions;
  #limits: LineLimits;
  readonly #counters = newCounters();
  readonly #last: LastBytes = { receivedMs: 0, sentMs: 0 };
  readonly #drops: BurstLog;
  #state: State = { kind: 'closed' };
  #sinceMs: number;
  #current: OpenPort | undefined;
  #packets: PacketBuffer | undefined;
  readonly #opener: Opener;
  /** Opened and waiting to be adopted. */
  #opened: Device | undefined;
  #answer: ((error: LinesideError | undefined) => void) | undefined;
  #retry: Timer | undefined;
  #inputs: Promise<void> = Promise.resolve();
  #opens: Promise<unknown> = Promise.resolve();
  #waitingOpens = 0;
  readonly #watch: { close(): void };
  #portListChanges = 0;
  readonly #listeners = new Set<LineListener>();
  #errorWatchers = 0;
  /** The name of the last caller of Open or Close. */
  #askedBy = '';
  /** Settings that were changed in place since the last Open: a port that was lost comes back with them. */
  #changes: SettingsChange = {};

  constructor(options: OwnerOptions) {
    this.#options = options;
    this.#limits = options;
    this.#sinceMs = options.clock.monoMs();
    const dropped = 'receive buffer full: oldest packets dropped (they are in the log)';
    this.#drops = new BurstLog(options.clock, options.logger, dropped, 'packets');
    this.#opener = new Opener(options.clock, options.openDevice, (attempt, outcome) => this.#opening(attempt, outcome));
    options.log.onRelieved(() => this.#current?.traffic.relieve());
    this.#watch = options.inventory.watch(() => {
      this.#portListChanges += 1;
      void this.#input({ kind: 'retry' });
    });
  }

  /** At start: reopens the port that was open, or opens that of the configuration; retries until the port exists. */
  async resume(config: LineConfig): Promise<void> {
    const error = new LinesideError('PORT_NOT_FOUND', `${config.portName} has not been found since the start`);
    await this.#input({ kind: 'resume', target: { config, port: undefined }, error });
  }

  /** Ends it permanently; what is to be open after the next start stays remembered. */
  async stop(): Promise<void> {
    this.#watch.close();
    this.#retry?.cancel();
    this.#opener.abandon();
    await this.#inputs;
    this.#move({ kind: 'closed' });
    const down = new LinesideError('SHUTTING_DOWN', 'the service is shutting down');
    this.#answer?.(down);
    await this.#closeCurrent(down);
    await this.#opener.idle();
    this.#drops.stop();
  }

  limit(limits: LineLimits): void {
    this.#limits = limits;
  }

  ports(): Promise<readonly Port[]> {
    return this.#options.inventory.list();
  }

  /** INVALID_ARGUMENT, SETTING_REFUSED, PORT_NOT_FOUND, PORT_BUSY, PORT_PERMISSION, PORT_IO, NOT_SENT (Close came meanwhile), QUEUE_FULL. `checkTurn` may throw when its turn has come. */
  open(request: OpenRequest, by = '', checkTurn = (): void => {}): Promise<void> {
    if (this.#waitingOpens >= MAX_WAITING_OPENS)
      return Promise.reject(new LinesideError('QUEUE_FULL', `${MAX_WAITING_OPENS} calls of Open are waiting already`));
    this.#waitingOpens += 1;
    const turn = this.#opens.then(() => {
      checkTurn();
      return this.#open(request, by);
    });
    this.#opens = turn
      .catch(() => undefined)
      .then(() => {
        this.#waitingOpens -= 1;
      });
    return turn;
  }

  /** Idempotent; ends within 2 s whatever the line does; never fails. */
  async close(by = ''): Promise<void> {
    await this.#input({ kind: 'close', by });
  }

  /** undefined unless the port is open now. */
  currentConfig(): LineConfig | undefined {
    return this.#current?.config;
  }

  /** Resolves when the kernel has accepted every byte. NOT_CONNECTED, INVALID_ARGUMENT, QUEUE_FULL, WRITE_TIMEOUT, NOT_SENT, PORT_IO. */
  async send(request: SendRequest): Promise<void> {
    await this.#connected().traffic.send(request);
  }

  /** Takes the oldest packet. NOT_CONNECTED, BUFFER_EMPTY. */
  receive(): ReceivedPacket {
    this.#connected();
    const packet = this.#packets?.take();
    if (packet === undefined) throw new LinesideError('BUFFER_EMPTY', 'no packet has been received');
    this.#counters.rxFetchedPackets += 1;
    return packet;
  }

  /** These three: NOT_CONNECTED, UNSUPPORTED, PORT_IO. */
  modemLines(): ModemLines {
    return this.#connected().device.modemLines();
  }

  setModemLines(lines: OutgoingLines): ModemLines {
    return this.#connected().device.setModemLines(lines);
  }

  /**
   * Gets what is received from now on, and what happens to the line, until the returned function is called. `fromEntry`: also
   * what was received after the last entry of the log, at once.
   */
  listen(listener: LineListener, fromEntry = false): () => void {
    const unfinished = fromEntry ? this.#current?.traffic.unfinished : undefined;
    if (unfinished !== undefined && unfinished.length > 0) listener.received(unfinished);
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Listeners get line errors, over a loss of the port too, until the returned function is called. NOT_CONNECTED, PORT_IO. */
  watchErrors(): () => void {
    this.#connected().device.markErrors(true);
    this.#errorWatchers += 1;
    return () => {
      this.#errorWatchers -= 1;
      if (this.#errorWatchers === 0) this.#markErrors(false);
    };
  }

  #markErrors(on: boolean): void {
    try {
      this.#current?.device.markErrors(on);
    } catch (error) {
      this.#options.logger.error('line errors could not be switched', { on, error: messageOf(error) });
    }
  }

  /** What is open now, for what goes beyond the contract. NOT_CONNECTED. */
  openPort(): OpenPort {
    return this.#connected();
  }

  /** Settings that were changed in place are those of the last Open again; one that the driver does not take stays. */
  restoreSettings(): void {
    const [port, state] = [this.#current, this.#state];
    const isChanged = Object.keys(this.#changes).length > 0;
    this.#changes = {};
    if (port === undefined || !('target' in state) || !isChanged) return;
    try {
      port.configure(state.target.config);
    } catch (error) {
      this.#options.logger.error('settings could not be restored', { error: messageOf(error) });
    }
  }

  /** durationMs 1 to 5000, else INVALID_ARGUMENT. */
  async sendBreak(durationMs: number, turn: Turn): Promise<void> {
    if (!Number.isInteger(durationMs) || durationMs < 1 || durationMs > MAX_BREAK_MS)
      throw new LinesideError('INVALID_ARGUMENT', `duration_ms: ${durationMs} is not 1 to ${MAX_BREAK_MS}`);
    await this.#connected().sendBreak(turn, durationMs);
  }

  snapshot(): LineSnapshot {
    const [state, current] = [this.#state, this.#current];
    const nowMs = this.#options.clock.monoMs();
    const { rxBytes, txBytes } = this.#counters;
    return {
      state: shownState(state, current !== undefined),
      stateAgeMs: nowMs - this.#sinceMs,
      receivedAgeMs: rxBytes === 0 ? 0 : nowMs - this.#last.receivedMs,
      sentAgeMs: txBytes === 0 ? 0 : nowMs - this.#last.sentMs,
      requested: current?.config ?? ('target' in state ? state.target.config : undefined),
      effective: current?.device.effective,
      rxGapMs: current?.traffic.rxGapMs ?? 0,
      maxPayloadBytes: this.#limits.maxPayloadBytes,
      devicePath: current?.device.path ?? '',
      error: 'error' in state ? state.error.message : '',
      kernel: current?.device.kernelCounters(),
      counters: this.#countersNow(),
      portListChanges: this.#portListChanges,
    };
  }

  #countersNow(): LineCounters {
    const none = { packets: 0, bytes: 0 };
    const { packets: rxBufferedPackets, bytes: rxBufferedBytes } = this.#packets ?? none;
    const { packets: txQueuedPackets, bytes: txQueuedBytes } = this.#current?.traffic.queued ?? none;
    return { ...this.#counters, rxBufferedPackets, rxBufferedBytes, txQueuedPackets, txQueuedBytes };
  }

  #connected(): OpenPort {
    if (this.#current !== undefined) return this.#current;
    if (!('error' in this.#state))
      throw new LinesideError('NOT_CONNECTED', 'no port is open', { hint: 'open a port first' });
    throw new LinesideError('NOT_CONNECTED', `no port is open: ${this.#state.error.message}`, {
      hint: 'the port is reopened automatically when it is there again',
    });
  }

  async #open(request: OpenRequest, by: string): Promise<void> {
    const config = validateOpen(request);
    const port = await this.#options.inventory.find(config.portName);
    if (port === undefined)
      throw new LinesideError('PORT_NOT_FOUND', `port_name: no serial port is called ${quoted(config.portName)}`, {
        hint: 'ListDevices names the ports there are',
      });
    this.#options.checkSettings(port, config);
    const answered = new Promise<void>((resolve, reject) => {
      this.#answer = (error) => (error === undefined ? resolve() : reject(error));
    });
    await this.#input({ kind: 'open', target: { config, port }, by });
    await answered;
  }

  /** Takes one input after the other: the effects of one are carried out before the next is handled. */
  #input(input: Input): Promise<void> {
    return this.#turn(input.kind, () => this.#take(input));
  }

  #turn(what: string, act: () => Promise<void>): Promise<void> {
    this.#inputs = this.#inputs.then(act).catch((error: unknown) => {
      this.#options.logger.error('port owner failed', { input: what, error: messageOf(error) });
      this.#answer?.(asLinesideError(error));
    });
    return this.#inputs;
  }

  async #take(input: Input): Promise<void> {
    if ('by' in input) this.#askedBy = input.by;
    const before = this.#state;
    const next = step(before, input);
    this.#move(next.state);
    let forgotten: Promise<void> | undefined;
    for (const effect of next.effects) {
      // Close has to end within 2 s: the port is forgotten while it is being closed. Open waits: its OK outlives a power cut.
      if (effect.kind === 'remember' && input.kind === 'close') forgotten = this.#options.memory.remember(undefined);
      else await this.#carryOut(effect);
    }
    await forgotten;
    const line = logLine(before, next.state, this.#current?.device.path ?? '');
    if (line === undefined) return;
    this.#options.logger[line.level](line.message, line.fields);
    if (line.event === undefined) return;
    const { kind, detail } = line.event;
    this.#options.log.event(kind, detail, kind === OPENED || kind === CLOSED ? this.#askedBy : '');
  }

  #move(state: State): void {
    const changed = state.kind !== this.#state.kind;
    if (changed) this.#sinceMs = this.#options.clock.monoMs();
    this.#state = state;
    if (state.kind === 'closed') this.#packets = undefined;
    if (!changed) return;
    const shown = shownState(state, this.#current !== undefined);
    for (const listener of this.#listeners) listener.state(shown);
  }

  /** Nothing here waits for a device to open: that outcome comes back as an input, and Close may come before it. */
  async #carryOut(effect: Effect): Promise<void> {
    switch (effect.kind) {
      case 'openDevice':
        return this.#opener.start(effect.target, async () => effect.target.port);
      case 'findAndOpen':
        return this.#opener.start(effect.target, () => this.#findAgain(effect.target));
      case 'abandonOpen':
        return this.#opener.abandon();
      case 'adopt':
        return this.#adopt(effect.fresh);
      case 'closeThen':
        return this.#closeCurrent(
          new LinesideError('NOT_SENT', 'the port was opened again before the packet was sent'),
        );
      case 'closeDevice':
        await this.#closeCurrent(new LinesideError('NOT_CONNECTED', 'the port was closed before the packet was sent'));
        return this.#take({ kind: 'closed' });
      case 'dropDevice':
        this.#counters.losses += 1;
        return this.#closeCurrent(new LinesideError('NOT_CONNECTED', 'the port was lost'));
      case 'startRetryTimer':
        return this.#startRetryTimer(effect.attempt);
      case 'stopRetryTimer':
        this.#retry?.cancel();
        return;
      case 'remember':
        return this.#options.memory.remember(effect.config);
      case 'answerOpen':
        this.#answer?.(effect.error);
        this.#answer = undefined;
    }
  }

  #startRetryTimer(attempt: number): void {
    const delayMs = backoffMs(attempt, RETRY_FIRST_MS, RETRY_MAX_MS);
    this.#retry = this.#options.clock.timer(delayMs, () => void this.#input({ kind: 'retry' }));
  }

  /** An outcome waits for its turn, and Close or another Open may have come before it. */
  #opening(attempt: symbol, outcome: Outcome): Promise<void> {
    return this.#turn(`outcome of ${outcome.kind}`, async () => {
      if (!this.#opener.claim(attempt)) {
        if (outcome.kind === 'opened') await outcome.device.close();
        return;
      }
      if (outcome.kind === 'openFailed') return this.#take(outcome);
      this.#opened = outcome.device;
      await this.#take({ kind: 'opened', target: outcome.target });
    });
  }

  #findAgain(target: Target): Promise<Port | undefined> {
    const { inventory } = this.#options;
    return target.port === undefined ? inventory.find(target.config.portName) : inventory.findAgain(target.port);
  }

  #adopt(fresh: boolean): void {
    const device = this.#opened;
    if (device === undefined || !('target' in this.#state)) throw new LinesideError('INTERNAL', 'nothing to adopt');
    this.#opened = undefined;
    const { target } = this.#state;
    const packets = this.#packetsFor(target.config, fresh);
    const traffic = new Traffic({
      device,
      config: target.config,
      packets,
      log: this.#options.log,
      clock: this.#options.clock,
      counters: this.#counters,
      last: this.#last,
      limits: () => this.#limits,
      txLimits: { maxPackets: this.#options.txQueuePackets, maxBytes: this.#options.txQueueBytes },
      onDropped: (count) => this.#drops.add({}, count),
    });
    const port = new OpenPort(device, traffic, target.config, (changes) => {
      this.#changes = { ...this.#changes, ...changes };
      this.#options.log.event(SETTINGS_CHANGED, settingsText(device.effective));
      for (const listener of this.#listeners) listener.settings(device.effective);
    });
    this.#current = port;
    if (fresh) this.#changes = {};
    else this.#changeAgain(port);
    if (!fresh && this.#counters.reopens < this.#counters.losses) this.#counters.reopens += 1;
    device.start({
      data: (bytes, errors) => {
        traffic.received(bytes);
        for (const listener of this.#listeners) listener.received(bytes, errors);
      },
      lost: (cause) => {
        const error = new LinesideError('PORT_IO', `${device.path} is gone: ${messageOf(cause)}`, { cause });
        if (this.#current?.device === device) void this.#input({ kind: 'lost', error });
      },
    });
    if (this.#errorWatchers > 0) this.#markErrors(true);
  }

  #changeAgain(port: OpenPort): void {
    if (Object.keys(this.#changes).length === 0) return;
    try {
      port.configure(changedConfig(port.config, this.#changes));
    } catch (error) {
      this.#options.logger.error('the port is back without the settings that were changed', {
        error: messageOf(error),
      });
    }
  }

  /** What was received stays to be fetched over a loss; an unfinished packet does not. */
  #packetsFor(config: LineConfig, fresh: boolean): PacketBuffer {
    if (!fresh && this.#packets !== undefined) {
      this.#packets.restartFraming();
      return this.#packets;
    }
    const { rxBufferBytes: maxBytes, rxBufferPackets: maxPackets } = this.#options;
    this.#packets = new PacketBuffer(config.packetSize, { maxBytes, maxPackets });
    return this.#packets;
  }

  async #closeCurrent(reason: LinesideError): Promise<void> {
    const current = this.#current;
    if (current === undefined) return;
    this.#current = undefined;
    current.traffic.end(reason);
    await current.device.close();
  }
}

/** While another port is being tried the old one is still open; and opening is one word for both of its ways. */
function shownState(state: State, connected: boolean): LineState {
  if (state.kind === 'opening' && connected) return 'open';
  return state.kind === 'restoring' ? 'opening' : state.kind;
}

function quoted(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}...` : name);
}
