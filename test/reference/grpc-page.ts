/** docs/reference/grpc.md: every service, call, message and enum of the .proto files, by their comments. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import protobuf from 'protobufjs';
import { blocks, code, MADE, type Page, table } from './page.ts';

const PROTO = join(import.meta.dirname, '../../proto');
const FILES = ['serial.proto', 'lineside.proto'];

export function grpcPage(): Page {
  const holes: string[] = [];
  const parts = [MADE, '# gRPC', intro];
  for (const file of FILES) {
    const source = readFileSync(join(PROTO, file), 'utf8');
    const { root } = protobuf.parse(source, new protobuf.Root(), {
      keepCase: true,
      alternateCommentMode: true,
    });
    const name = packageOf(source);
    const space = root.lookup(name);
    if (!(space instanceof protobuf.Namespace)) throw new Error(`${file} has no package`);
    parts.push(`## ${code(name)}`, headOf(source));
    for (const thing of space.nestedArray) parts.push(...chapter(thing, holes));
  }
  return { text: blocks(...parts), holes };
}

const intro = `Types are those of proto3. A message field that is not set reads as 0, "" or empty; a call that fails ends with a gRPC
status, or, in the contract (${code('serial')}), with a status inside its answer: [what answers what](serial-service.md).`;

function chapter(thing: protobuf.ReflectionObject, holes: string[]): string[] {
  if (thing instanceof protobuf.Service) return service(thing, holes);
  if (thing instanceof protobuf.Type) return message(thing, holes);
  if (thing instanceof protobuf.Enum) return enumeration(thing, holes);
  throw new Error(`what is ${thing.fullName}?`);
}

function service(one: protobuf.Service, holes: string[]): string[] {
  const calls = one.methodsArray.flatMap((method) => [
    `#### ${one.name}.${method.name}`,
    code(
      `rpc ${method.name}(${streamed(method.requestStream, method.requestType)}) returns (${streamed(method.responseStream, method.responseType)})`,
    ),
    described(method, holes),
  ]);
  return [`### Service ${code(one.name)}`, one.comment ?? '', ...calls];
}

function streamed(isStream: boolean | undefined, type: string): string {
  return isStream === true ? `stream ${type}` : type;
}

function message(one: protobuf.Type, holes: string[]): string[] {
  const rows = one.fieldsArray.map((field) => [
    String(field.id),
    code(field.name),
    code(typeOf(field)),
    described(field, holes),
  ]);
  return [
    `### Message ${code(nameIn(one))}`,
    one.comment ?? '',
    rows.length === 0 ? 'No fields.' : table(['', 'field', 'type', ''], rows),
    ...one.nestedArray.flatMap((nested) => chapter(nested, holes)),
  ];
}

function typeOf(field: protobuf.Field): string {
  if (field instanceof protobuf.MapField) return `map<${field.keyType}, ${field.type}>`;
  const oneof = field.partOf;
  // "optional" is a oneof of its own to protobufjs.
  const before = field.repeated ? 'repeated ' : oneof?.name === `_${field.name}` ? 'optional ' : '';
  return `${before}${field.type}${oneof !== null && before === '' ? ` (oneof ${oneof.name})` : ''}`;
}

function enumeration(one: protobuf.Enum, holes: string[]): string[] {
  const rows = Object.entries(one.values).map(([name, value]) => {
    const comment = one.comments[name] ?? '';
    if (comment === '') holes.push(`${one.fullName}.${name}`);
    return [String(value), code(name), comment];
  });
  return [`### Enum ${code(nameIn(one))}`, one.comment ?? '', table(['', 'value', ''], rows)];
}

function described(thing: protobuf.ReflectionObject, holes: string[]): string {
  if ((thing.comment ?? '') === '') holes.push(thing.fullName);
  return thing.comment ?? '';
}

/** Without the package: SerialLogEntry.Direction. */
function nameIn(thing: protobuf.ReflectionObject): string {
  const { parent } = thing;
  return parent instanceof protobuf.Type ? `${nameIn(parent)}.${thing.name}` : thing.name;
}

function packageOf(source: string): string {
  return /^package ([a-z0-9.]+);$/m.exec(source)?.[1] ?? '';
}

/** The comment that a file begins with. */
function headOf(source: string): string {
  const lines = source.split('\n');
  const end = lines.findIndex((line) => !line.startsWith('//'));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ''))
    .join('\n');
}
