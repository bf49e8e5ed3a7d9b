/** docs/reference/http.md: every route, body and answer, by the OpenAPI document that the app makes of itself. */
import { type Access, mayCall } from '../../src/hub/http/access.ts';
import { titles } from '../../src/hub/http/problem.ts';
import type { RouteParts } from '../../src/hub/http/routes/route.ts';
import { openapiDocument } from '../../src/hub/http/routes/routes.ts';
import { roles } from '../../src/shared/auth/tokens.ts';
import { errorCatalogue } from '../../src/shared/base/errors.ts';
import { linkOf, nameOf, rowsOf, type Schema, shapeOf } from './json-shape.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly 'x-role'?: Access;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
}

interface Document {
  readonly info: { readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

interface Route {
  readonly name: string;
  readonly operation: Operation;
}

export async function httpPage(): Promise<Page> {
  // Routes are registered, none is called: of the parts only the version is read.
  const { info, paths, components } = JSON.parse(openapiDocument({ version: '' } as RouteParts)) as Document;
  const holes: string[] = [];
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const groups = Map.groupBy(routes, ({ operation }) => operation.tags?.[0] ?? 'other');
  const chapters = [...groups].flatMap(([tag, own]) => [
    `## ${tag[0]?.toUpperCase()}${tag.slice(1)}`,
    ...own.flatMap((route) => chapter(route, holes)),
  ]);
  const shapes = Object.entries(components.schemas).flatMap(([name, schema]) => component(name, schema));
  const text = blocks(
    MADE,
    '# HTTP',
    plain(info.description),
    intro,
    accessTable(routes),
    ...chapters,
    ...shapes,
    problems(),
  );
  return { text, holes };
}

const intro = `The same as OpenAPI 3.1 is at ${code('/openapi.json')} of each box. **Role** is what the token needs (${code('lineside token add')});
over the Unix socket nothing is asked. Any route may besides end with ${code('401')} (no token, or none that is known), ${code('403')} (not
the role), ${code('429')} (too many requests at once), ${code('500')} and ${code('503')}; every failure is a [problem](#problems).`;

function accessTable(routes: readonly Route[]): string {
  const accesses = [...new Set(routes.map(({ operation }) => operation['x-role'] ?? 'open'))].filter(
    (access) => access !== 'open',
  );
  const rows = accesses.map((access) => [
    access,
    roles
      .filter((role) => mayCall([role], access))
      .map(code)
      .join(', '),
  ]);
  return table(['role that a route wants', 'tokens with any of these have it'], rows);
}

function chapter({ name, operation }: Route, holes: string[]): string[] {
  const { summary = '', description = '', parameters = [], requestBody } = operation;
  const role = operation['x-role'];
  if (summary === '') holes.push(name);
  for (const parameter of parameters) {
    if ((parameter.description ?? parameter.schema.description ?? '') === '') holes.push(`${name}: ${parameter.name}`);
  }
  return [
    `### ${name}`,
    `${plain(summary)}. ${plain(description)} ${role === undefined ? 'Open to everyone.' : `Role: ${role}.`}`.replaceAll(
      '  ',
      ' ',
    ),
    parameters.length === 0 ? '' : table(['parameter', 'in', 'type', ''], parameters.map(parameterRow)),
    ...bodies(requestBody, name, holes),
    table(['answer', '', ''], Object.entries(operation.responses).filter(isOwn).map(answerRow)),
  ];
}

function parameterRow({ name, in: place, required, description, schema }: Parameter): string[] {
  const meaning = plain(description ?? schema.description ?? '');
  return [code(name), `${place}${required === true ? '' : ', optional'}`, shapeOf(schema), meaning];
}

function bodies(body: Operation['requestBody'], route: string, holes: string[]): string[] {
  return Object.entries(body?.content ?? {}).flatMap(([type, { schema = {} }]) => {
    const rows = rowsOf(schema);
    for (const [field = '', , , meaning] of rows) if (meaning === '') holes.push(`${route}: ${field}`);
    const optional = body?.required === false ? ', may be left out' : '';
    const named = nameOf(schema) === undefined ? '' : `: ${linkOf(schema)}`;
    return [
      `Body (${code(type)}${optional})${named}${rows.length === 0 ? '.' : ':'}`,
      rows.length === 0 ? '' : table(['field', 'type', '', ''], rows),
    ];
  });
}

/** What a route answers of its own: not what any may end with. */
function isOwn([status]: readonly [string, unknown]): boolean {
  return !['401', '403', '408', '429', '431', '500', '503'].includes(status);
}

function answerRow([status, { description, content }]: [string, Operation['responses'][string]]): string[] {
  const types = Object.entries(content ?? {}).filter(([type]) => type !== 'application/problem+json');
  const shapes = types.map(([type, { schema }]) => {
    return type === 'application/json' && schema !== undefined ? shapeOf(schema) : code(type);
  });
  return [status, plain(description), shapes.join(', ')];
}

function component(name: string, schema: Schema): string[] {
  const rows = (schema.anyOf ?? [schema]).flatMap((kind) => rowsOf(kind));
  return [
    `### ${name}`,
    plain(schema.description ?? ''),
    rows.length === 0 ? shapeOf(schema) : table(['field', 'type', '', ''], rows),
  ];
}

function problems(): string {
  const rows = Object.entries(errorCatalogue).map(([name, { http, grpc, retryable }]) => {
    const title = (titles as Readonly<Record<string, string>>)[name] ?? '';
    return [code(name), String(http), code(grpc), retryable ? 'yes' : 'no', title];
  });
  return `## Problems\n\nDecide by ${code('code')}, never by the text. The same codes as gRPC statuses:\n\n${table(
    ['code', 'HTTP', 'gRPC', 'worth trying again', ''],
    rows,
  )}`;
}
