/** A refdata.db as subscriptions, changes and the planner would have left it. */
import { join } from 'node:path';
import { DeliveryRows } from '../../../src/hub/webhooks/delivery/delivery-rows.ts';
import { SecretBox } from '../../../src/hub/webhooks/subscriptions/secrets.ts';
import type { Connection } from '../../../src/shared/storage/open.ts';
import { instantOf } from '../outbox/samples.ts';
import { filledFile, insertEvents } from '../outbox/seed.ts';
import { SECRET, SUBSCRIPTION } from './settings.ts';

/** One subscription for each URL, each for all of the events, none of which is planned. */
export function seedSubscriptions(dir: string, { events, urls }: { events: number; urls: readonly string[] }): void {
  seed(dir, urls, (connection) => insertEvents(connection, events));
}

/** So many deliveries that wait, of an event each, to one subscription. */
export function seedDeliveries(dir: string, { deliveries, url }: { deliveries: number; url: string }): void {
  seed(dir, [url], (connection) => {
    insertEvents(connection, deliveries);
    const rows = new DeliveryRows(connection);
    for (let id = 1; id <= deliveries; id++) {
      const content = {
        nonce: id.toString(16).padStart(16, '0'),
        scopes: '["PUBLIC"]',
        events: 1,
        body: rows.element(id) ?? null,
      };
      rows.insert([{ content, subscriptions: [{ id: 1, name: SUBSCRIPTION }] }], id, instantOf(id - 1), 0);
    }
    connection.prepare('UPDATE webhook_progress SET last_event = $n, last_delivery = $n').run({ n: deliveries });
  });
}

function seed(dir: string, urls: readonly string[], fill: (connection: Connection) => void): void {
  const secrets = new SecretBox(join(dir, 'webhooks.key'));
  const connection = filledFile(dir, (file) => {
    urls.forEach((url, n) => subscribe(file, n + 1, url, secrets.seal(n + 1, SECRET)));
    fill(file);
  });
  connection.close();
}

function subscribe(connection: Connection, id: number, url: string, secret: Buffer): void {
  connection
    .prepare(
      `INSERT INTO webhook_subscriptions (id, name, url, consumer, scopes, active, version, created_at, updated_at,
         after_event, secret) VALUES (?, ?, ?, 'local', '["PUBLIC"]', 1, 1, ?, ?, 0, ?)`,
    )
    .run(id, SUBSCRIPTION, url, instantOf(0), instantOf(0), secret);
}
