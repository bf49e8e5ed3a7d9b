/**
 * What deliveries carry: the events of a transaction that a filter takes, as JSON, made once when they are planned and shared
 * by their deliveries. The bytes of a delivery follow from columns that never change: they are the same on every attempt.
 */
import { constants, deflateSync, inflateSync } from 'node:zlib';
import type { Instant } from '../../../shared/base/instant.ts';
import { schemaVersion } from '../../outbox/event.ts';
import { actions, type Delivery } from '../face.ts';
import { recordCategory } from '../subscriptions/subscription.ts';

/** Elements with commas between: JSON, or deflated. */
export type StoredBody = string | Buffer;

/** Elements repeat the same names: deflated, many have about a tenth of the bytes. Less than this is one page of the card anyway. */
const deflatedFromChars = 1_024;

export function storedBody(elements: string): StoredBody {
  return elements.length < deflatedFromChars ? elements : deflateSync(elements);
}

export function deliveryIdOf({ id, nonce }: { readonly id: number; readonly nonce: string }): string {
  return `${id}-${nonce}`;
}

export interface Envelope {
  readonly id: number;
  readonly nonce: string;
  readonly subscriptionName: string;
  readonly occurredAt: Instant;
}

/** Throws zlib's error for a damaged body. */
export function bodyOf(envelope: Envelope, stored: StoredBody): Buffer {
  const { subscriptionName, occurredAt } = envelope;
  const [id, name, at] = [deliveryIdOf(envelope), subscriptionName, occurredAt].map((text) => JSON.stringify(text));
  const elements = typeof stored === 'string' ? Buffer.from(stored) : inflateSync(stored);
  const head = `{"deliveryId":${id},"subscriptionName":${name},"occurredAt":${at},"events":[`;
  return Buffer.concat([Buffer.from(head), elements, Buffer.from(']}')]);
}

export type EventHead = NonNullable<Delivery['firstEvent']>;

/** Of a stored body: enough for the names of its first event, whose keys have 256 characters at most, and little to inflate. */
export const headBytes = 2_048;

const quoted = '("(?:[^"\\\\]|\\\\.)*")';
const head = new RegExp(
  `^{"schemaVersion":${quoted},"eventType":${quoted},(?:"category":${quoted},)?"dictionary":${quoted}(?:,"businessKey":${quoted},"action":${quoted})?,`,
);

/** `begin`: the first `headBytes` of a stored body. Undefined: it is damaged. */
export function firstEventOf(begin: StoredBody): EventHead | undefined {
  try {
    const text =
      typeof begin === 'string' ? begin : inflateSync(begin, { finishFlush: constants.Z_SYNC_FLUSH }).toString();
    const members = head.exec(text)?.slice(1) ?? [];
    const values = members.map((member) => (member ? (JSON.parse(member) as string) : null));
    const [, eventType, , dictionary, businessKey = null, action] = values;
    if (!eventType || !dictionary) return undefined;
    return { eventType, dictionary, businessKey, action: actions.find((one) => one === action) ?? null };
  } catch {
    return undefined;
  }
}

/** SQL: the element of a record's event. Webhooks have one type of it, for bulk imports too. NULL if one of the values is. */
const recordElement = (version: string, validFrom: string, data: string): string =>
  `'{"schemaVersion":"${schemaVersion}","eventType":"dictionary.changed","dictionary":"' || e.dictionary || '","businessKey":' ||
   json_quote(e.business_key) || ',"action":"' || e.action || '","version":' || ${version} || ',"validFrom":' || ${validFrom} ||
   ',"data":' || ${data} || '}'`;
/** SQL: the element of a record's event `e`, made of its version `v`. */
export const versionElementSql = recordElement('v.version', `'"' || v.valid_from || '"'`, 'v.data');

/** SQL: a value as the stored text has it (JSON.parse could alter numbers). */
const stored = (name: string): string => `(e.body -> '$.${name}')`;

/**
 * SQL: the element of an event `e` that is stored whole: a definition's, a draft's, and a record's that an older program wrote.
 * NULL: what is stored of a record's is damaged.
 */
export const wholeElementSql = `CASE WHEN e.category <> '${recordCategory}' THEN e.body
  WHEN json_valid(e.body) THEN ${recordElement(stored('version'), stored('validFrom'), stored('data'))} END`;
