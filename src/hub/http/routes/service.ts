/** About the service itself, open to everyone who reaches it: whether it lives, whether it works, numbers, the document. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { App, RouteParts } from './route.ts';
import { answers, common } from './schemas.ts';

const tags = ['service'];

export function ownRoutes(app: App, { metrics, version, trouble, openapi }: RouteParts): void {
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'getHealth',
        summary: 'Whether the process lives',
        tags,
        response: answers({ status: 200, what: 'It does.', of: 'Health' }, common),
      },
    },
    async () => ({ status: 'ok', version }),
  );

  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'getReadiness',
        summary: 'Whether the service works, and why not',
        tags,
        response: answers({ status: 200, what: 'It does.', of: 'Health' }, [...common, 'NOT_READY']),
      },
    },
    async () => {
      const error = trouble();
      if (error !== undefined) throw error.code === 'SHUTTING_DOWN' ? error : notReady(error);
      return { status: 'ok', version };
    },
  );

  app.get(
    '/metrics',
    {
      schema: {
        operationId: 'getMetrics',
        summary: 'Numbers for Prometheus',
        tags,
        response: answers({ status: 200, what: 'Text format 0.0.4.', raw: ['text/plain', { type: 'string' }] }, common),
      },
    },
    async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()),
  );

  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'getOpenapi',
        summary: 'This document',
        tags,
        response: answers({ status: 200, what: 'OpenAPI 3.1.', raw: ['application/json', { type: 'object' }] }, common),
      },
    },
    async (_request, reply) => reply.type('application/json; charset=utf-8').send(await openapi()),
  );
}

/** 503 whatever it is: that is what probes and balancers understand. */
function notReady(error: LinesideError): LinesideError {
  const { code, message, hint } = error;
  return new LinesideError('NOT_READY', message, { cause: error, hint, reasons: [`${code}: ${message}`] });
}
