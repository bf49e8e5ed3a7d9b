/** A delivery and its attempts as rows, and as they are shown. Pure. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Attempt, Delivery } from '../face.ts';
import { deliveryIdOf, type PendingDelivery, type RunMs } from '../parts.ts';
import type { AttemptRow, ListedRow } from './review-rows.ts';

/** undefined: no delivery was ever called so. */
export function deliveryKeyOf(deliveryId: string): Pick<PendingDelivery, 'id' | 'nonce'> | undefined {
  const [, id = '', nonce = ''] = /^([1-9]\d{0,14})-([0-9a-f]{16})$/.exec(deliveryId) ?? [];
  return nonce === '' ? undefined : { id: Number(id), nonce };
}

export function deliveryView(row: ListedRow, subscriptionName: string, runMs: RunMs): Delivery {
  const { subscriptionId, state, occurredAt, events, attempts, dueRunMs, endedAt } = row;
  const waits = state === 'pending' || state === 'retrying';
  return {
    deliveryId: deliveryIdOf(row),
    subscription: String(subscriptionId),
    subscriptionName,
    state,
    occurredAt,
    events,
    attempts,
    nextAttemptInSeconds: waits ? Math.max(0, Math.ceil((dueRunMs - runMs) / 1000)) : null,
    endedAt,
    lastAttempt: lastAttempt(row),
  };
}

/** Without the answer: a list holds no bodies of any kind. */
function lastAttempt({ attempt, at, elapsedMs, status, cause, message }: ListedRow): Attempt | null {
  if (attempt === null || at === null || elapsedMs === null || cause === null || message === null) return null;
  return attemptView({ attempt, at, elapsedMs, status, cause, message, answer: null });
}

export function attemptView({ status, cause, answer, ...attempt }: AttemptRow): Attempt {
  return {
    ...attempt,
    statusCode: status,
    cause: cause === '' ? null : cause,
    responseBody: answer === null ? null : textOf(answer),
  };
}

/** Cut anywhere: half a character at its end is left out. What is no UTF-8 has U+FFFD in its place. */
function textOf(answer: Buffer): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(answer, { stream: true });
}

export function noDelivery(): LinesideError {
  return new LinesideError('NOT_FOUND', 'there is no such delivery', {
    hint: 'Delivered ones are removed after webhooks.keep_delivered_days, others after webhooks.keep_failed_days.',
  });
}

export function waitsAlready(deliveryId: string): LinesideError {
  return new LinesideError('CONFLICT', `delivery ${deliveryId} waits already to be sent`, {
    hint: 'nextAttemptInSeconds says when; it is never sent twice at a time.',
  });
}

export function eventsGone(deliveryId: string, unavailable: string): LinesideError {
  return new LinesideError('CONFLICT', `delivery ${deliveryId} cannot be sent again: ${unavailable}`, {
    hint: 'What changed can still be read from the records and their history.',
  });
}
