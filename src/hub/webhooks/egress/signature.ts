/** What proves to a subscriber who sent a body: the value of X-Service-Signature. */
import { createHmac } from 'node:crypto';

/** HMAC-SHA256 of the exact bytes that are sent, in lower-case hexadecimal. */
export function signatureOf(secret: string, body: Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}
