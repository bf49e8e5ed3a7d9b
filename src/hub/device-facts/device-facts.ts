/**
 * The device's own dictionaries, device.ports and device.line: the hub asks the line for its facts, compares them with what is
 * stored, writes what differs, and so reports it to the central side through its own outbox.
 */
import type Long from 'long';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { asLinesideError, messageOf } from '../../shared/base/errors.ts';
import { sameJson } from '../../shared/base/json.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../shared/base/loop.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { parities, stopBits } from '../../shared/proto/line-status.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { type JsonObject, scopes } from '../outbox/event.ts';
import type { Actor } from '../refdata/face.ts';
import type { Refdata } from '../refdata/refdata.ts';

const PORTS = 'device.ports';
const LINE = 'device.line';
/** The one record of device.line. */
const LINE_KEY = 'line';

/** The delay that a technician sees after plugging something in; a small call each time. */
const POLL_MS = 2_000;
/** Even if the line has noticed no change: it notices by inotify, of which a machine may have too few. */
const LIST_MS = 60_000;
/** A line that works answers in milliseconds. */
const ANSWER_LIMIT_MS = 5_000;
/** A restart of the line is not reported. */
const AWAY_MS = 30_000;
/** Between two changes of a record: a bouncing connector, or a client that opens and closes, must not flood the card and the broker. */
const PACE_MS = 10_000;
/** More than any device has ports. */
const PAGE_LIMIT = 1_000;

const actor: Actor = { name: 'device', scopes };
const CHANGE_REASON = 'noticed by the device';

const titles: Readonly<Record<string, string>> = {
  [PORTS]: 'Serial ports of the devices',
  [LINE]: "State of the devices' serial line",
};

export interface LineFacts {
  readonly devices: readonly DeviceFields[];
  readonly status: StatusFields;
}

export interface DeviceFactsOptions {
  /** Rejects if the line does not answer. */
  readonly look: (signal: AbortSignal) => Promise<LineFacts>;
  readonly refdata: Refdata;
  readonly deviceId: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Asks for the status each time, for the ports only when they may have changed: listing them reads some hundred files of /sys,
 * which every two seconds were four fifths of an idle box's context switches.
 */
export function factsOf({ serial, line }: LineClient, clock: Clock): DeviceFactsOptions['look'] {
  let listed: { readonly devices: readonly DeviceFields[]; readonly changes: Long; readonly atMs: number } | undefined;
  return async (signal) => {
    const status = await line.getStatus({}, { signal });
    const changes = status.portListChanges;
    const atMs = clock.monoMs();
    const ageMs = atMs - (listed?.atMs ?? Number.NEGATIVE_INFINITY);
    // A line that was restarted since counts from 0 again.
    const isOld = ageMs >= LIST_MS || status.uptimeMs.lessThan(ageMs);
    if (listed === undefined || isOld || !listed.changes.equals(changes))
      listed = { devices: (await serial.listDevices({}, { signal })).devices, changes, atMs };
    return { devices: listed.devices, status };
  };
}

/** While the line is unreachable, or the store is full, the records stay as they are and writing is retried. */
export class DeviceFacts {
  readonly #o: DeviceFactsOptions;
  readonly #loop: Loop;
  #answeredMs: number;
  /** Since when a record may be written again, by dictionary and key. */
  readonly #paced = new Map<string, number>();
  #trouble = '';

  constructor(options: DeviceFactsOptions) {
    const { clock, logger } = options;
    this.#o = options;
    this.#answeredMs = clock.monoMs();
    const failures = new FailureLog(
      logger,
      "the device's own facts are not up to date",
      "the device's own facts are up to date again",
    );
    const retry = { retryFirstMs: POLL_MS, retryMaxMs: POLL_MS };
    this.#loop = new Loop({ pass: (signal) => this.#pass(signal), failures, clock, ...retry });
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #pass(signal: AbortSignal): Promise<number> {
    this.#trouble = await this.#update(signal);
    if (this.#trouble !== '') throw new Error(this.#trouble);
    return POLL_MS;
  }

  /** '' or the reason why the records are not up to date. */
  async #update(signal: AbortSignal): Promise<string> {
    const { deviceId, clock } = this.#o;
    const answer = await this.#ask(signal);
    if (signal.aborted) return '';
    if (typeof answer === 'string') {
      if (clock.monoMs() - this.#answeredMs < AWAY_MS) return this.#trouble;
      return (await this.#writeLine((known) => unknownLine(known, deviceId))) || answer;
    }
    this.#answeredMs = clock.monoMs();
    const ports = await this.#write(PORTS, () => portRecords(answer.devices, deviceId));
    const line = await this.#writeLine((known) => steady(lineRecord(answer.status, deviceId), known));
    return ports || line;
  }

  /** The line's facts, or the reason why there is no answer. */
  async #ask(signal: AbortSignal): Promise<LineFacts | string> {
    const { clock, look } = this.#o;
    try {
      return await withLimit(clock, ANSWER_LIMIT_MS, signal, look);
    } catch (error) {
      return `the line does not answer: ${messageOf(error)}`;
    }
  }

  #writeLine(wanted: (known: JsonObject | undefined) => JsonObject): Promise<string> {
    return this.#write(LINE, (known) => new Map([[LINE_KEY, wanted(known?.get(LINE_KEY)?.data)]]));
  }

  /** '' or the first reason why a record could not be written; the others are written nevertheless. */
  async #write(dictionary: string, wanted: (known: ReadonlyMap<string, Known> | undefined) => Wanted): Promise<string> {
    const { clock, refdata } = this.#o;
    let trouble = '';
    try {
      const known = this.#known(dictionary);
      if (known === undefined) await this.#createDictionary(dictionary);
      for (const change of changesTo(wanted(known), known ?? new Map())) {
        const name = `${dictionary}:${change.key}`;
        if ((this.#paced.get(name) ?? Number.NEGATIVE_INFINITY) > clock.monoMs()) continue;
        try {
          await apply(refdata, dictionary, change);
          this.#pace(name);
        } catch (error) {
          const { message, retryable } = asLinesideError(error);
          trouble ||= `${name}: ${message}`;
          if (retryable) break;
        }
      }
    } catch (error) {
      trouble ||= `${dictionary}: ${messageOf(error)}`;
    }
    return trouble;
  }

  /** The open records; undefined: there is no such dictionary yet. */
  #known(dictionary: string): ReadonlyMap<string, Known> | undefined {
    const { refdata } = this.#o;
    const found = new Map<string, Known>();
    let cursor: string | undefined;
    try {
      do {
        const page = refdata.records(actor, dictionary, {}, { limit: PAGE_LIMIT, cursor });
        for (const { businessKey, data, version } of page.items) found.set(businessKey, { data, version });
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return found;
    } catch (error) {
      if (asLinesideError(error).code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  async #createDictionary(name: string): Promise<void> {
    const title = titles[name] ?? name;
    await this.#o.refdata.createDictionary(actor, { name, title, scope: 'INTERNAL' }, CHANGE_REASON);
  }

  #pace(name: string): void {
    const nowMs = this.#o.clock.monoMs();
    for (const [other, untilMs] of this.#paced) if (untilMs <= nowMs) this.#paced.delete(other);
    this.#paced.set(name, nowMs + PACE_MS);
  }
}

async function apply(refdata: Refdata, dictionary: string, change: FactChange): Promise<void> {
  const { key } = change;
  if (change.kind === 'close') {
    await refdata.closeRecord(actor, dictionary, key, CHANGE_REASON, change.version);
  } else if (change.kind === 'create') {
    await refdata.createRecord(actor, dictionary, key, { data: change.data, changeReason: CHANGE_REASON });
  } else {
    const { data, version } = change;
    await refdata.updateRecord(actor, dictionary, key, { data, changeReason: CHANGE_REASON }, version);
  }
}

// The line's facts as records of the dictionaries, and the changes that make the stored records equal to them. Pure.

/** Data by business key. */
type Wanted = ReadonlyMap<string, JsonObject>;

type DeviceFields = Pick<serial.SerialDevice, 'portName' | 'description' | 'hardwareId'>;
type ConfigFields = Omit<serial.SerialConfig, 'toJSON'>;

export type StatusFields = Pick<lineside.v1.LineStatus, 'portState' | 'portError' | 'currentPortName'> & {
  readonly requested?: ConfigFields | null;
};

type LineState = 'open' | 'closed' | 'lost' | 'unknown';

/**
 * By lineside.v1.PortState. States of a moment are not recorded: an opening port is not open yet, a port that is
 * reopened every few seconds is still lost.
 */
const states: readonly LineState[] = ['unknown', 'closed', 'closed', 'open', 'lost', 'lost', 'closed'];

export function portRecords(devices: readonly DeviceFields[], deviceId: string): Wanted {
  return new Map(
    devices.map(({ portName, description, hardwareId }) => [portName, { deviceId, portName, description, hardwareId }]),
  );
}

export function lineRecord(status: StatusFields, deviceId: string): JsonObject {
  const { portState, requested, portError, currentPortName } = status;
  const state = states[portState] ?? 'unknown';
  const portName = currentPortName === '' ? (requested?.portName ?? '') : currentPortName;
  return { deviceId, state, portName, config: requested == null ? null : configOf(requested), error: portError };
}

/** Field by field: a 0 of a decoded message is on its prototype, which a spread does not copy. */
function configOf(config: ConfigFields): JsonObject {
  const { portName, baudRate, dataBits, parity, packetSize } = config;
  return {
    portName,
    baudRate,
    dataBits,
    parity: parities[parity] ?? 'unknown',
    stopBits: String(stopBits[config.stopBits] ?? 'unknown'),
    packetSize,
  };
}

/** The record of a line that does not answer keeps its port and configuration. */
export function unknownLine(known: JsonObject | undefined, deviceId: string): JsonObject {
  const { portName = '', config = null } = known ?? {};
  return { deviceId, state: 'unknown', portName, config, error: 'the line does not answer' };
}

/**
 * While a port is lost, each attempt to reopen it changes the error's text. The first text stays: otherwise an unplugged
 * adapter would write a change every few seconds for weeks.
 */
export function steady(wanted: JsonObject, known: JsonObject | undefined): JsonObject {
  const stillLost = wanted['state'] === 'lost' && known?.['state'] === 'lost';
  return stillLost && known['error'] !== undefined ? { ...wanted, error: known['error'] } : wanted;
}

/** An open record as it is now. */
export interface Known {
  readonly data: JsonObject;
  readonly version: number;
}

type FactChange =
  | { readonly kind: 'create'; readonly key: string; readonly data: JsonObject }
  | { readonly kind: 'update'; readonly key: string; readonly data: JsonObject; readonly version: number }
  | { readonly kind: 'close'; readonly key: string; readonly version: number };

/** The changes that make a dictionary hold the wanted records. Closes come first, so that a name that moved is free. */
export function changesTo(wanted: Wanted, known: ReadonlyMap<string, Known>): FactChange[] {
  const changes: FactChange[] = [];
  for (const [key, { version }] of known) if (!wanted.has(key)) changes.push({ kind: 'close', key, version });
  for (const [key, data] of wanted) {
    const now = known.get(key);
    if (now === undefined) changes.push({ kind: 'create', key, data });
    else if (!sameJson(now.data, data)) changes.push({ kind: 'update', key, data, version: now.version });
  }
  return changes;
}
