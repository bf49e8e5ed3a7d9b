/** Every route, for the app that serves them and for the document that describes them. */
import { lineLogRoutes, lineRoutes } from './line.ts';
import { dictionaryRoutes, draftRoutes, importRoutes, recordRoutes } from './refdata.ts';
import { type Route, type RouteParts, routesOf } from './route.ts';
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
  importRoutes,
];

export function routesWith(parts: RouteParts): readonly Route[] {
  const list: Route[] = [];
  for (const routes of all) routes(routesOf(list), parts);
  return list;
}
