/** Every route, for the app that serves them and for the one that describes them. */
import { lineLogRoutes, lineRoutes } from './line.ts';
import { dictionaryRoutes, draftRoutes, importRoutes, recordRoutes } from './refdata.ts';
import { type App, type RouteParts, routesOf } from './route.ts';
import { consoleRoutes, operationRoutes, serviceRoutes } from './service.ts';
import { deliveryRoutes, subscriptionRoutes } from './webhooks.ts';

const all = [
  serviceRoutes,
  consoleRoutes,
  dictionaryRoutes,
  draftRoutes,
  recordRoutes,
  operationRoutes,
  lineRoutes,
  lineLogRoutes,
  subscriptionRoutes,
  deliveryRoutes,
];

export async function registerRoutes(app: App, parts: RouteParts): Promise<void> {
  for (const routes of all) routes(routesOf(app), parts);
  await app.register(async (scope) => importRoutes(scope as App, parts));
}
