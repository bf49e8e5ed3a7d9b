/** The serial line as the console has it: how it stands, opening and closing, sending. */
import type { FastifyReply } from 'fastify';
import { statusNumbers } from '../../shared/proto/line-status.ts';
import { sentBytes } from './line-bytes.ts';
import { configMessage, type LineConfig } from './line-json.ts';
import type { App, RouteParts } from './route.ts';
import { answers, changingLine, readingLine } from './schemas.ts';
import { LineBody } from './schemas-line.ts';

const tags = ['line'];

export function lineRoutes(app: App, { line, history }: RouteParts): void {
  app.get(
    '/api/v1/line',
    {
      schema: {
        operationId: 'getLine',
        summary: 'The port, its counters, the log and the clock',
        tags,
        response: answers({ status: 200, what: 'How it stands.', of: 'LineStatus' }, readingLine),
      },
    },
    async () => statusNumbers(await line.status()),
  );

  app.get(
    '/api/v1/line/ports',
    {
      schema: {
        operationId: 'listPorts',
        summary: 'List the serial ports of the box',
        tags,
        response: answers({ status: 200, what: 'Ports.', of: 'LinePorts' }, readingLine),
      },
    },
    async () => {
      const ports = await line.ports();
      return {
        items: ports.map(({ portName, description, hardwareId }) => ({ portName, description, hardwareId })),
      };
    },
  );

  app.get(
    '/api/v1/line/history',
    {
      schema: {
        operationId: 'getLineHistory',
        summary: 'What went over the line in the last six hours',
        tags,
        response: answers({ status: 200, what: 'Samples.', of: 'LineHistory' }, readingLine),
      },
    },
    async () => history.samples(),
  );
}

export function lineChangeRoutes(app: App, { line }: RouteParts): void {
  app.post(
    '/api/v1/line/open',
    {
      schema: {
        operationId: 'openLine',
        summary: 'Open a port, or reopen it with other settings',
        tags,
        body: LineBody.open,
        response: answers({ status: 200, what: 'It is open.', of: 'LineStatus' }, [
          ...changingLine,
          'PORT_NOT_FOUND',
          'PORT_BUSY',
        ]),
      },
    },
    async ({ body }) => {
      await line.open(configMessage(body satisfies LineConfig));
      return statusNumbers(await line.status());
    },
  );

  app.post(
    '/api/v1/line/close',
    {
      schema: {
        operationId: 'closeLine',
        summary: 'Close the port',
        tags,
        response: answers({ status: 200, what: 'It is closed.', of: 'LineStatus' }, changingLine),
      },
    },
    async () => {
      await line.close();
      return statusNumbers(await line.status());
    },
  );

  app.post(
    '/api/v1/line/send',
    {
      schema: {
        operationId: 'sendToLine',
        summary: 'Write bytes to the open port, as one packet',
        tags,
        body: LineBody.send,
        response: answers({ status: 200, what: 'The kernel has taken them.', of: 'Sent' }, [
          ...changingLine,
          'NOT_CONNECTED',
          'WRITE_TIMEOUT',
        ]),
      },
    },
    async ({ body }, reply) => {
      const payload = sentBytes(body);
      await line.send(payload, goneSignal(reply));
      return { bytes: payload.length };
    },
  );
}

/** Fires when the client is gone, and after its answer. */
function goneSignal({ raw }: Pick<FastifyReply, 'raw'>): AbortSignal {
  const gone = new AbortController();
  if (raw.destroyed) gone.abort();
  raw.once('close', () => gone.abort());
  return gone.signal;
}
