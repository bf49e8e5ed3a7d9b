/** Operations: the machine that the hub runs on. */
import type { App, RouteParts } from './route.ts';
import { answers, reading } from './schemas.ts';

export function hostRoutes(app: App, { host }: RouteParts): void {
  app.get(
    '/api/v1/admin/host',
    {
      schema: {
        operationId: 'getHost',
        summary: 'Temperature, voltage, memory, disk and card, clock, boots and losses of power',
        tags: ['host'],
        response: answers({ status: 200, what: 'How it stands.', of: 'HostFacts' }, reading),
      },
    },
    async () => host.facts(),
  );
}
