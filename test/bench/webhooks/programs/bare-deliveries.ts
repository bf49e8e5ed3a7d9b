/**
 * What lineside's deliveries are held against: a loop of got posts, signed, over kept connections.
 * bare-deliveries.ts URL CA COUNT CONCURRENCY
 */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import got from 'got';
import { eventAt } from '../../outbox/samples.ts';
import { SECRET, SUBSCRIPTION } from '../settings.ts';

const [url = '', caFile = '', ...numbers] = process.argv.slice(2);
const [count = 0, concurrency = 0] = numbers.map(Number);
const agent = new Agent({ keepAlive: true, maxSockets: concurrency, ca: readFileSync(caFile) });
let next = 0;

async function client(): Promise<void> {
  while (next < count) {
    const n = next++;
    const body = bodyOf(n);
    const signature = createHmac('sha256', SECRET).update(body).digest('hex');
    await got.post(url, {
      body,
      agent: { https: agent },
      retry: { limit: 0 },
      followRedirect: false,
      decompress: false,
      headers: {
        'content-type': 'application/json',
        'x-service-signature': `sha256=${signature}`,
        'x-service-delivery': `${n}`,
        'x-service-subscription': SUBSCRIPTION,
      },
    });
  }
}

/** As large as lineside's for the same event. */
function bodyOf(n: number): Buffer {
  const { event, stamp } = eventAt(n, count);
  const { dictionary, businessKey, action, version, validFrom, data, eventType } = event;
  const element = { schemaVersion: '1.0.0', eventType, dictionary, businessKey, action, version, validFrom, data };
  const head = { deliveryId: `${n}-0123456789abcdef`, subscriptionName: SUBSCRIPTION, occurredAt: stamp.occurredAt };
  return Buffer.from(JSON.stringify({ ...head, events: [element] }));
}

await Promise.all(Array.from({ length: concurrency }, client));
agent.destroy();
