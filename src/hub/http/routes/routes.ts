/** Every route, for the app that serves them and for the one that describes them. */
import { type App, type RouteParts } from './route.ts';
import { consoleRoutes, whoamiRoutes } from './routes-console.ts';
import { dictionaryRoutes } from './routes-dictionaries.ts';
import { draftRoutes, draftStepRoutes } from './routes-drafts.ts';
import { hostRoutes } from './routes-host.ts';
import { importRoutes } from './routes-imports.ts';
import { lineChangeRoutes, lineRoutes } from './routes-line.ts';
import { lineLogRoutes } from './routes-line-log.ts';
import { outboxRoutes, oversightRoutes } from './routes-outbox.ts';
import { ownRoutes } from './routes-own.ts';
import { recordChangeRoutes, recordCloseRoutes, recordReadRoutes } from './routes-records.ts';
import {
  deliveryRoutes,
  subscriptionChangeRoutes,
  subscriptionRoutes,
  webhookOperationRoutes,
} from './routes-webhooks.ts';

export async function registerRoutes(app: App, parts: RouteParts): Promise<void> {
  ownRoutes(app, parts);
  consoleRoutes(app, parts);
  dictionaryRoutes(app, parts);
  draftRoutes(app, parts);
  draftStepRoutes(app, parts);
  recordReadRoutes(app, parts);
  recordChangeRoutes(app, parts);
  recordCloseRoutes(app, parts);
  outboxRoutes(app, parts);
  oversightRoutes(app, parts);
  hostRoutes(app, parts);
  whoamiRoutes(app);
  lineRoutes(app, parts);
  lineChangeRoutes(app, parts);
  lineLogRoutes(app, parts);
  subscriptionRoutes(app, parts);
  subscriptionChangeRoutes(app, parts);
  deliveryRoutes(app, parts);
  webhookOperationRoutes(app, parts);
  await app.register(async (scope) => importRoutes(scope as App, parts));
}
