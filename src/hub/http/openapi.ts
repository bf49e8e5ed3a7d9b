/**
 * The OpenAPI document, made of the routes' own schemas at the first request for it: an app of its own registers
 * them once more for @fastify/swagger and is thrown away, so that the one that serves carries none of it.
 */
import swagger from '@fastify/swagger';
import Fastify from 'fastify';
import { type App, type RouteParts } from './routes/route.ts';
import { registerRoutes } from './routes/routes.ts';
import { components } from './schemas/answers.ts';

/** In the order of their routes. */
const tags = {
  service: 'The service itself: whether it works, its figures, this document.',
  console: 'The web page.',
  dictionaries: 'Dictionaries and their definitions.',
  drafts: 'Proposed schemas, their review and publication.',
  records: 'Records with validity, and their history.',
  outbox: 'Events that wait for the broker, and dead letters.',
  audit: 'Records of what operators and lineside itself did.',
  alerts: 'What needs attention.',
  host: 'The machine.',
  line: 'The serial line and its log.',
  webhooks: 'Subscriptions and deliveries.',
  imports: 'Bundles of records.',
};

/** As JSON text. */
export async function openapiDocument(parts: RouteParts): Promise<string> {
  const app: App = Fastify({ exposeHeadRoutes: false });
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  for (const [name, schema] of Object.entries(components)) app.addSchema({ ...schema, $id: name });
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'lineside',
        version: parts.version,
        description:
          'Dictionaries of records with validity, their changes, and the outbox and webhooks that tell of them; the serial line and its log. Errors are RFC 9457 problem details; decide by their code. Times are RFC 3339 with an offset.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'The box that this document comes from.' }],
      tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
      components: {
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'A token of "lineside token add"; not on the Unix socket.',
          },
        },
      },
      security: [{ bearer: [] }],
    },
    refResolver: {
      buildLocalReference: (json, _base, _fragment, i) => (typeof json.$id === 'string' ? json.$id : `def-${i}`),
    },
    transform: ({ schema, url, route }) => {
      const access = route.config?.access;
      const described = { ...schema, ...(access === 'open' ? { security: [] } : { 'x-role': access }) };
      return { schema: described, url };
    },
  });
  await app.register(async (scope) => registerRoutes(scope as App, parts));
  await app.ready();
  const document = JSON.stringify(app.swagger(), withOptionalBodies);
  await app.close();
  return document;
}

/** @fastify/swagger calls every body required; one whose object asks for no field may be left out. */
function withOptionalBodies(name: string, value: unknown): unknown {
  if (name !== 'post' || !has(value, 'requestBody') || !has(value.requestBody, 'content')) return value;
  const { content } = value.requestBody;
  const schema = has(content, 'application/json') ? content['application/json'] : undefined;
  if (!has(schema, 'schema') || has(schema.schema, 'required')) return value;
  return { ...value, requestBody: { ...value.requestBody, required: false } };
}

function has<N extends string>(value: unknown, name: N): value is Readonly<Record<N, unknown>> {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name);
}
