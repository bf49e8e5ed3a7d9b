/** The serial log over HTTP, as NDJSON: pages of it, and what appears. */
import type { OutgoingHttpHeaders } from 'node:http';
import Long from 'long';
import { LinesideError } from '../../shared/base/errors.ts';
import { type lineside, serial } from '../../shared/proto/services.ts';
import { mayBeSlow } from './connections.ts';
import { MAX_LOG_ENTRIES } from './limits.ts';
import { logLines, NDJSON, sendPieces } from './line-log.ts';
import { type App, actorOf, type RouteParts } from './route.ts';
import { answers, readingLine } from './schemas.ts';
import { LogQuery } from './schemas-line.ts';

export function lineLogRoutes(app: App, { line, streams, authenticate, clock }: RouteParts): void {
  app.get(
    '/api/v1/line/log',
    {
      schema: {
        operationId: 'readLineLog',
        summary: 'Read the serial log, and follow it',
        tags: ['line'],
        querystring: LogQuery,
        response: answers(
          {
            status: 200,
            what: 'A line of JSON each, by type: log (logId, headId) first; entry (id, dir, timestampMs, clock, data in base64, note); gap (firstId, lastId, entries, reason); position (nextAfterId) after each batch; with follow, alive at least every 2 s while the line answers; end (code, message) last, where the service ended it.',
            raw: [NDJSON, { type: 'string' }],
          },
          [...readingLine, 'LOG_REPLACED', 'LOG_LOST'],
        ),
      },
    },
    async (request, reply) => {
      const wanted = readRequest(request.query);
      reply.type(NDJSON);
      if (request.method === 'HEAD') return reply.send('');
      const stream = streams.open({
        kind: wanted.follow === true ? 'follow' : 'page',
        reader: `${actorOf(request).name} ${request.ip}`,
        authenticate: () => authenticate(request),
      });
      reply.raw.once('close', () => stream.close());
      try {
        const source = await logLines({ line, stream, clock, request: wanted });
        reply.hijack();
        mayBeSlow(reply.raw);
        reply.raw.writeHead(200, reply.getHeaders() as OutgoingHttpHeaders);
        await sendPieces(reply.raw, source);
        return reply;
      } catch (error) {
        throw stream.reason ?? error;
      } finally {
        // Also of a client that was gone before it was listened for: nothing tells of its end again.
        stream.close();
      }
    },
  );
}

interface Asked {
  readonly after?: number;
  readonly last?: number;
  readonly follow?: 'true' | 'false';
  readonly dir?: 'rx' | 'tx';
  readonly limit?: number;
}

const directionOf = { tx: serial.SerialLogEntry.Direction.TX, rx: serial.SerialLogEntry.Direction.RX } as const;

function readRequest(asked: Asked): lineside.v1.ReadLogRequest.$Properties {
  const { after = 0, last, dir, limit } = asked;
  const follow = asked.follow === 'true';
  const faults = [
    asked.after !== undefined && last !== undefined ? 'after and last: send one of them, not both' : '',
    limit !== undefined && last !== undefined ? 'limit: not with last, which is one' : '',
    limit !== undefined && follow ? 'limit: not with follow, which has no end' : '',
  ].filter((fault) => fault !== '');
  if (faults.length > 0) throw new LinesideError('INVALID_ARGUMENT', faults.join('; '), { reasons: faults });
  return {
    ...(last === undefined
      ? { afterId: Long.fromNumber(after, true) }
      : { last: true, limit: Long.fromNumber(last, true) }),
    ...(last === undefined && !follow && { limit: Long.fromNumber(limit ?? MAX_LOG_ENTRIES, true) }),
    ...(dir !== undefined && { dirs: [directionOf[dir]] }),
    follow,
  };
}
