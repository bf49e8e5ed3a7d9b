/** Bundle import: the body goes through as it comes, never held whole. */
import type { IncomingMessage } from 'node:http';
import { Type } from '@sinclair/typebox';
import { LinesideError } from '../../../shared/base/errors.ts';
import { checkCharset } from '../bodies.ts';
import { changeReason } from '../headers.ts';
import { Headers } from '../schemas/answers.ts';
import { businessKey } from '../schemas/refdata.ts';
import { dictionaryName } from '../schemas/shapes.ts';
import { type App, type RouteParts, routesOf } from './route.ts';

const NDJSON = 'application/x-ndjson';
/** For the document: the import itself checks its items. */
const item = {
  type: 'object',
  required: ['dictionary', 'businessKey'],
  additionalProperties: false,
  properties: {
    dictionary: dictionaryName,
    businessKey,
    data: { type: 'object', description: 'Not with close.' },
    validFrom: {
      type: 'string',
      format: 'date-time',
      description: 'From when it is so; default: the time of the import.',
    },
    action: {
      type: 'string',
      enum: ['upsert', 'close'],
      default: 'upsert',
      description: 'Make or update the record, or close it.',
    },
  },
  anyOf: [
    { properties: { action: { const: 'upsert' } }, required: ['data'] },
    { properties: { action: { const: 'close' }, data: false, validFrom: false }, required: ['action'] },
  ],
  examples: [{ dictionary: 'site.rooms', businessKey: 'room-12', data: { floor: 2 } }],
};

const body = Type.Unsafe<never>({
  content: {
    [NDJSON]: { schema: { ...item, description: 'A line each.' } },
    'application/json': {
      schema: {
        type: 'object',
        required: ['items'],
        additionalProperties: false,
        properties: { items: { type: 'array', items: item, description: 'A record each.' } },
      },
    },
  },
});

/** In a scope of its own: here bodies are not parsed. */
export function importRoutes(app: App, { refdata, maxImportBytes }: RouteParts): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(['application/json', NDJSON], (_request, _payload, done) => done(null));

  routesOf(app)('imports')('POST /api/v1/imports', 'writer', {
    id: 'importBundle',
    summary: 'Import a bundle in one transaction, all or nothing',
    description: 'A line (or item) for each record. Every fault is listed with its line.',
    streams: true,
    headers: Headers.reason,
    body,
    answer: { what: 'All of it is in.', of: 'ImportResult' },
    problems: ['NOT_FOUND', 'CONFLICT'],
    handle({ caller, request }) {
      const type = request.headers['content-type'];
      if (type === undefined)
        throw new LinesideError('UNSUPPORTED_MEDIA', `send the bundle as ${NDJSON} or application/json`);
      checkCharset(type);
      const format = type.toLowerCase().startsWith(NDJSON) ? 'ndjson' : 'json';
      const reason = changeReason(request.headers['x-change-reason']);
      return refdata.importBundle(caller, format, reason, bytesOf(request.raw, maxImportBytes));
    },
  });
}

/** Leaving it early leaves the connection alone: the client is still to get its answer. */
async function* bytesOf(body: IncomingMessage, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      if (!(chunk instanceof Uint8Array)) continue;
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    throw new LinesideError('MALFORMED', 'the bundle ended before it was whole', { cause: error });
  }
}

function tooLarge(maxBytes: number): LinesideError {
  return new LinesideError('TOO_LARGE', `the bundle is larger than http.max_import_bytes allows (${maxBytes} bytes)`, {
    hint: 'send it in parts; each part is a transaction of its own',
  });
}
