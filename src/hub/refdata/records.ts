/** Changes of records, one at a time and many keys closed at once. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Change, ChangeStore } from '../outbox/change-store.ts';
import type { Dictionaries } from './dictionaries.ts';
import type { DictionaryHead } from './dictionary-rows.ts';
import type { Actor, RecordChange, RecordVersion } from './face.ts';
import { businessKeyFault, checkData } from './input-rules.ts';
import { recordNotFound } from './record-reads.ts';
import { type Newest, RecordWriter } from './record-writer.ts';
import { Faults, faultAt, quotedName, reasonFaults, refuseFaults, requireVersion } from './refusals.ts';
import { Validators } from './validators.ts';
import { openFrom } from './validity.ts';

/** A transaction of so many closings takes some 0.3 s of this thread. */
const maxKeysClosed = 10_000;

export class Records {
  readonly #store: ChangeStore;
  readonly #dictionaries: Dictionaries;
  readonly #writer: RecordWriter;
  readonly #validators: Validators;

  constructor(store: ChangeStore, dictionaries: Dictionaries) {
    this.#store = store;
    this.#dictionaries = dictionaries;
    this.#writer = new RecordWriter(store.connection, 'dictionary.changed');
    this.#validators = new Validators(store.connection, false);
  }

  /** A business key that was closed is opened again, its versions counted on. CONFLICT: it is open. */
  async create(actor: Actor, dictionary: string, businessKey: string, wanted: RecordChange): Promise<RecordVersion> {
    const keyFaults = faultAt('/businessKey', businessKeyFault(businessKey));
    return this.#put(actor, dictionary, businessKey, wanted, keyFaults, (newest) => {
      if (newest === undefined || newest.closed === 1) return;
      throw new LinesideError('CONFLICT', `there is a record ${quotedName(businessKey)} in ${dictionary} already`, {
        hint: `It has version ${newest.version}: update it, or close it first.`,
      });
    });
  }

  /** `version`: what If-Match named; undefined: VERSION_REQUIRED. CONFLICT: the record is closed. */
  async update(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    wanted: RecordChange,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion> {
    return this.#put(actor, dictionary, businessKey, wanted, [], (newest, now) => {
      requireOpen(dictionary, businessKey, newest, version, now);
    });
  }

  async #put(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    wanted: RecordChange,
    faults: readonly string[],
    mayChange: (newest: Newest | undefined, now: Instant) => void,
  ): Promise<RecordVersion> {
    const { data, validFrom: asked, changeReason = '' } = wanted;
    const checked = checkData(data);
    const given = openFrom(asked, '');
    const early = [
      ...faults,
      ...faultAt('/data', checked.fault ?? ''),
      ...faultAt('/validFrom', typeof given === 'string' ? given : ''),
      ...reasonFaults(changeReason),
    ];
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const bySchema =
        checked.fault === undefined ? this.#validators.of(head.id, head.version)(data, checked.text.length) : [];
      refuseFaults('the record cannot be written', [...early, ...bySchema]);
      const newest = this.#writer.newest(head, businessKey);
      mayChange(newest, change.stamp.txTime);
      const validity = openFrom(asked, change.stamp.txTime);
      if (typeof validity === 'string' || checked.fault !== undefined) throw new Error('a fault was not refused');
      return this.#writer.put(change, head, businessKey, newest, { ...validity, data, text: checked.text });
    });
  }

  async close(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    changeReason: string,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion> {
    refuseFaults('the record cannot be closed', reasonFaults(changeReason));
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const found = this.#writer.newest(head, businessKey);
      const newest = requireOpen(dictionary, businessKey, found, version, change.stamp.txTime);
      return this.#writer.close(change, head, businessKey, newest);
    });
  }

  /** All or nothing; every fault in `reasons`. Returns how many were closed and the transaction's time. */
  async bulkClose(
    actor: Actor,
    dictionary: string,
    businessKeys: readonly string[],
    changeReason: string,
  ): Promise<{ readonly txTime: Instant; readonly closed: number }> {
    refuseFaults('the records cannot be closed', [
      ...(businessKeys.length === 0 ? ['/businessKeys must not be empty'] : []),
      ...(businessKeys.length > maxKeysClosed ? [`/businessKeys must have at most ${maxKeysClosed} keys`] : []),
      ...reasonFaults(changeReason),
    ]);
    return this.#store.commit({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const faults = this.#closeAll(change, head, businessKeys);
      refuseFaults('the records cannot be closed', faults.reasons);
      change.audit('records.bulkClosed', dictionary, { closed: businessKeys.length, changeReason });
      return { txTime: change.stamp.txTime, closed: businessKeys.length };
    });
  }

  #closeAll(change: Change, head: DictionaryHead, businessKeys: readonly string[]): Faults {
    const faults = new Faults();
    const places = new Map<string, number>();
    businessKeys.forEach((key, place) => {
      const first = places.get(key);
      const newest = this.#writer.newest(head, key);
      if (first !== undefined) faults.add(`/businessKeys/${place} is there already at /businessKeys/${first}`);
      else if (newest === undefined) faults.add(`/businessKeys/${place} there is no record ${quotedName(key)}`);
      else if (newest.closed === 1)
        faults.add(`/businessKeys/${place} the record ${quotedName(key)} is closed already`);
      else if (faults.count === 0) this.#writer.close(change, head, key, newest);
      if (first === undefined) places.set(key, place);
    });
    return faults;
  }
}

/** Throws NOT_FOUND, VERSION_REQUIRED, STALE_VERSION, and CONFLICT for a closed record, in this order. */
function requireOpen(
  dictionary: string,
  businessKey: string,
  newest: Newest | undefined,
  version: ExpectedVersion | undefined,
  now: Instant,
): Newest {
  if (newest === undefined) throw recordNotFound(dictionary, businessKey);
  const what = `the record ${quotedName(businessKey)} of ${dictionary}`;
  // Reading it now gives the version before, again and again.
  const ahead = newest.closed === 0 && newest.validFrom > now;
  requireVersion(
    what,
    newest.version,
    version,
    ahead ? `It is valid from ${newest.validFrom} on: see its history.` : undefined,
  );
  if (newest.closed === 0) return newest;
  throw new LinesideError('CONFLICT', `${what} is closed`, { hint: 'Create it again to open it.' });
}
