/** The web console: its files, and who it is that looks. */

import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ConsoleFile } from './console-files.ts';
import { type App, actorOf, type RouteParts } from './route.ts';
import { answers, common, guarded, Headers, unchanged } from './schemas.ts';
import { exact } from './shapes.ts';

const CONSOLE = '/console/';
const tags = ['console'];

export function consoleRoutes(app: App, { console: files }: RouteParts): void {
  for (const [path, operationId] of [
    ['/', 'goToConsole'],
    ['/console', 'goToConsoleDirectory'],
  ] as const) {
    app.get(
      path,
      {
        schema: {
          operationId,
          summary: 'To the console',
          tags,
          response: answers({ status: 302, what: 'There.' }, common),
        },
      },
      async (_request, reply) => reply.redirect(CONSOLE, 302),
    );
  }

  const page = {
    ...answers({ status: 200, what: 'The page.', raw: ['text/html', { type: 'string' }] }, problems),
    ...unchanged,
  };
  app.get(
    CONSOLE,
    { schema: { operationId: 'getConsole', summary: 'The console', tags, headers: Headers.known, response: page } },
    async (request, reply) => sendFile(request, reply, await files.file('index.html')),
  );

  app.get(
    `${CONSOLE}:file`,
    {
      schema: {
        operationId: 'getConsoleFile',
        summary: 'A file of the console',
        tags,
        headers: Headers.known,
        params: exact({ file: Type.String({ description: 'Its name.', examples: ['console.js'] }) }),
        response: {
          ...answers({ status: 200, what: 'The file.', raw: ['*/*', { type: 'string' }] }, problems),
          ...unchanged,
        },
      },
    },
    async (request, reply) => sendFile(request, reply, await files.file(request.params.file)),
  );
}

const problems = [...common, 'NOT_FOUND'] as const;

export function whoamiRoutes(app: App): void {
  app.get(
    '/api/v1/whoami',
    {
      schema: {
        operationId: 'getCaller',
        summary: 'Whose token this is, and what it may do',
        tags: ['service'],
        response: answers({ status: 200, what: 'The caller.', of: 'Caller' }, guarded),
      },
    },
    async (request) => {
      const { name, roles } = actorOf(request);
      return { name, roles };
    },
  );
}

/** Kept by browsers, and asked after each time: one small answer on the LAN. */
async function sendFile(request: FastifyRequest, reply: FastifyReply, file: ConsoleFile): Promise<FastifyReply> {
  const { bytes, gzipped, type } = file;
  const compress =
    gzipped !== undefined &&
    /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(request.headers['accept-encoding']?.toString() ?? '');
  const etag = `"${file.etag}${compress ? '-gzip' : ''}"`;
  reply.headers({ 'cache-control': 'no-cache', etag, vary: 'accept-encoding' });
  if (compress) reply.header('content-encoding', 'gzip');
  return reply.type(type).send(compress ? gzipped : bytes);
}
