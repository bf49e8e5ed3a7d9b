/** Every route, for the app that serves them; and the OpenAPI document that is made of their declarations. */
import { OptionalKind, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { tokenName } from '../../../admin/verbs.ts';
import { errorCatalogue } from '../../../shared/base/errors.ts';
import { PROBLEM_TYPE } from '../problem.ts';
import { type Answer, type ComponentName, components, Headers } from '../schemas/answers.ts';
import { businessKey } from '../schemas/refdata.ts';
import { dictionaryName, numberId } from '../schemas/shapes.ts';
import { deliveryId, subscriptionId } from '../schemas/webhooks.ts';
import { adminAuditRoutes, adminConfigurationRoutes, adminRoutes } from './admin.ts';
import { adminRestoreRoutes, adminUpdateRoutes, adminUploadRoutes } from './admin-upload.ts';
import { historyRoutes } from './history.ts';
import { lineCommandRoutes, lineLogRoutes, lineRoutes, terminalRoutes } from './line.ts';
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
  lineCommandRoutes,
  historyRoutes,
  lineLogRoutes,
  terminalRoutes,
  subscriptionRoutes,
  deliveryRoutes,
  importRoutes,
  adminRoutes,
  adminAuditRoutes,
  adminConfigurationRoutes,
  adminUploadRoutes,
  adminUpdateRoutes,
  adminRestoreRoutes,
];

export function routesWith(parts: RouteParts): readonly Route[] {
  const list: Route[] = [];
  for (const routes of all) routes(routesOf(list), parts);
  return list;
}

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
  administration: 'What root does for an administrator: tokens, restart, diagnosis, update, restore.',
};

/** By the part of the path before them. */
const pathParameters: Readonly<Record<string, TSchema>> = {
  console: Type.String({ description: 'Its name.', examples: ['console.js'] }),
  dictionaries: dictionaryName,
  drafts: numberId('id of the draft.', '1'),
  records: { ...businessKey, description: 'Business key, percent-encoded ("/" as %2F).' },
  'dead-letters': numberId('id of the dead letter.', '17'),
  subscriptions: subscriptionId,
  deliveries: deliveryId,
  tokens: tokenName,
};

export function openapiDocument(parts: RouteParts): string {
  const byPath = Map.groupBy(routesWith(parts), ({ url }) => url.replaceAll(/:([a-z]+)/g, '{$1}'));
  const paths = [...byPath].map(([path, routes]) => [
    path,
    Object.fromEntries(routes.map((route) => [route.method.toLowerCase(), operation(route)])),
  ]);
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: 'lineside',
      version: parts.version,
      description:
        'Dictionaries of records with validity, their changes, and the outbox and webhooks that report them; the serial line and its log. Errors are RFC 9457 problem details; decide by their code. Times are RFC 3339 with an offset.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'A token of "lineside token add"; not on the Unix socket.',
        },
      },
      schemas: components,
    },
    paths: Object.fromEntries(paths),
    webhooks: { delivery: { post: deliveryOperation() } },
    servers: [{ url: '/', description: 'The box that this document comes from.' }],
    security: [{ bearer: [] }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
  });
}

/** What the box sends: described in the document, served by subscribers. */
function deliveryOperation(): object {
  const inHeader = (name: string, description: string, required = true) => ({
    name,
    in: 'header',
    required,
    description,
    schema: { type: 'string' },
  });
  const signature = 'sha256= and the HMAC-SHA256 of the raw body, in lower-case hex';
  return {
    operationId: 'delivery',
    summary: 'A delivery to a subscriber.',
    tags: ['webhooks'],
    description: 'Verify the signature before the body is parsed; answer within webhooks.timeout_ms.',
    security: [],
    parameters: [
      inHeader('X-Service-Delivery', 'deliveryId of the body.'),
      inHeader('X-Service-Subscription', 'Name of the subscription.'),
      inHeader('X-Service-Signature', `${signature}.`),
      inHeader('X-Service-Signature-Previous', `${signature}, by the secret before; while its grace lasts.`, false),
    ],
    requestBody: { required: true, content: { 'application/json': { schema: reference('WebhookPayload') } } },
    responses: {
      202: { description: 'Accepted; 200, 201 and 204 too.' },
      '4XX': { description: 'Rejected: no further attempt.' },
      default: { description: 'Tried again by webhooks.schedule_s.' },
    },
  };
}

function operation(route: Route): object {
  const { id, summary, description, tag, method, url, access, query, headers, body } = route;
  const inPath = [...url.matchAll(/([a-z-]+)\/:([a-z]+)/g)].map(([, before = '', name = '']) => [
    name,
    pathParameters[before],
  ]);
  const parameters = [
    ...parametersIn('query', query?.properties),
    ...parametersIn('path', Object.fromEntries(inPath) as TProperties),
    ...parametersIn('header', headers?.properties),
  ];
  return {
    operationId: id,
    summary,
    tags: [tag],
    description,
    ...(body !== undefined && { requestBody: requestBody(method, body) }),
    ...(parameters.length > 0 && { parameters }),
    ...(access === 'open' ? { security: [] } : { 'x-role': access }),
    responses: responses(route),
  };
}

function parametersIn(place: 'query' | 'path' | 'header', properties: TProperties = {}): object[] {
  return Object.entries(properties).map(([name, { description, examples, ...schema }]) => ({
    schema,
    ...(Array.isArray(examples) && { example: examples[0] }),
    in: place,
    name,
    required: !(OptionalKind in schema),
    description,
  }));
}

/** The body of a step may be left out if its object needs no field. A change without a field changes nothing. */
function requestBody(method: string, body: NonNullable<Route['body']>): object {
  if ('content' in body) return { required: true, content: body['content'] };
  return { required: method !== 'POST' || 'required' in body, content: { 'application/json': { schema: body } } };
}

/** The good answer, and the problems that the route may end with. */
function responses({ answer, headers, problems }: Route): Record<string, object> {
  const { status = 200, what, etag } = answer;
  const ownHeaders = {
    ...(etag === true && { ETag: header('The version, in quotes.', '^"[0-9]+"$') }),
    ...((status === 201 || status === 302) && { Location: header('Where it can be read.') }),
  };
  const response: Record<string, object> = {
    [status]: { description: what, headers: ownHeaders, content: contentOf(answer) },
    ...(headers === Headers.known && {
      304: { description: 'It is still the one that If-None-Match names.' },
    }),
  };
  for (const [failed, codes] of Map.groupBy(new Set(problems), (code) => errorCatalogue[code].http)) {
    response[failed] = { description: codes.join(', '), content: { [PROBLEM_TYPE]: { schema: reference('Problem') } } };
  }
  return response;
}

function contentOf({ of, listOf, raw }: Answer): object | undefined {
  if (raw !== undefined) return { [raw[0]]: { schema: raw[1] } };
  if (of !== undefined) return { 'application/json': { schema: reference(of) } };
  return listOf && { 'application/json': { schema: listSchema(listOf) } };
}

function reference(name: ComponentName): object {
  return { $ref: `#/components/schemas/${name}` };
}

function listSchema(name: ComponentName): object {
  return {
    type: 'object',
    required: ['items', 'nextCursor'],
    additionalProperties: false,
    properties: {
      items: { type: 'array', items: reference(name) },
      nextCursor: { type: ['string', 'null'], description: 'cursor of the next page; null: this was the last.' },
    },
  };
}

function header(description: string, pattern?: string): object {
  return { schema: { type: 'string', pattern }, description };
}
