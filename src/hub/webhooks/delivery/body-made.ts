/** A delivery's body, or in words why there is none: what is wrong with one delivery alone must not stop the others. */
import { messageOf, systemCode } from '../../../shared/base/errors.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { PendingDelivery } from '../parts.ts';
import type { BodySource, DeliveryBody } from './body-source.ts';

export type Bodies = Pick<BodySource, 'bodyOf' | 'templateOf'>;

/** Throws where refdata.db cannot be read for the moment: then it is not known yet. */
export function madeBody(
  bodies: Bodies,
  connection: Connection,
  delivery: PendingDelivery,
): DeliveryBody | { readonly unavailable: string } {
  try {
    return bodies.bodyOf(delivery) ?? { unavailable: 'the events of this delivery are not kept any more' };
  } catch (error) {
    if (systemCode(error).startsWith('SQLITE_') || !connection.open) throw error;
    return { unavailable: `the body of this delivery cannot be made: ${messageOf(error)}` };
  }
}
