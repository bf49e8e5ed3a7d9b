// Writes two modules from proto/ to the directory named: descriptors.js, the FileDescriptorSet that gRPC reflection answers from,
// and messages.js, the fields of what HTTP answers as JSON with their comments, from which HTTP schema and metrics are made.
import { writeFileSync } from 'node:fs';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor.js';

const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  target.startsWith('google/') ? target : `proto/${target.replace(/^proto\//, '')}`;
root
  .loadSync(['lineside.proto', 'serial.proto', 'grpc/health/v1/health.proto'], { alternateCommentMode: true })
  .resolveAll();
const set = root.toDescriptor('proto3');
// protobufjs names files after packages and leaves out their imports: give both back.
const files = {
  'google.protobuf': { name: 'google/protobuf/empty.proto', dependency: [] },
  'grpc.health.v1': { name: 'grpc/health/v1/health.proto', dependency: [] },
  serial: { name: 'serial.proto', dependency: ['google/protobuf/empty.proto'] },
  'lineside.v1': { name: 'lineside.proto', dependency: ['google/protobuf/empty.proto', 'serial.proto'] },
};
for (const file of set.file) {
  const known = files[file.package];
  if (known === undefined) throw new Error(`unexpected package ${file.package}`);
  Object.assign(file, known);
}
for (const message of set.file.flatMap((file) => file.messageType)) nameMapEntries(message);
set.file.sort((a, b) => a.dependency.length - b.dependency.length);
const bytes = Buffer.from(descriptor.FileDescriptorSet.encode(set).finish());
write(
  'descriptors',
  `export const descriptorsBase64 = '${bytes.toString('base64')}';`,
  'export const descriptorsBase64: string;',
);
const messages = {};
for (const name of ['LineStatus', 'RecordedEvent', 'LogHistogram']) addMessage(root.lookupType(`lineside.v1.${name}`));
write(
  'messages',
  `export const messages = ${JSON.stringify(messages, undefined, 2)};`,
  `export interface MessageField {
  readonly name: string;
  readonly type: string;
  readonly repeated: boolean;
  readonly comment: string;
}
export const messages: Readonly<Record<string, readonly MessageField[]>>;`,
);

function write(name, code, types) {
  writeFileSync(`${process.argv[2]}/${name}.js`, `${code}\n`);
  writeFileSync(`${process.argv[2]}/${name}.d.ts`, `${types}\n`);
}

/** A message of lineside.v1 and those in it; names as in JSON. */
function addMessage(type) {
  messages[type.name] = type.fieldsArray.map((field) => {
    const { resolvedType, repeated, comment } = field.resolve();
    const isMessage = resolvedType instanceof protobuf.Type;
    if (isMessage && resolvedType.parent === type.parent && !(resolvedType.name in messages)) addMessage(resolvedType);
    const text = comment?.replaceAll('\n', ' ') ?? '';
    return { name: field.name, type: resolvedType?.name ?? field.type, repeated, comment: text };
  });
}

/** Clients insist on protoc's name for the entry type of a map: TagsEntry for tags. protobufjs gives it another. */
function nameMapEntries(message) {
  for (const entry of message.nestedType.filter(({ options }) => options?.mapEntry === true)) {
    const field = message.field.find(({ typeName }) => typeName?.split('.').at(-1) === entry.name);
    if (field === undefined) throw new Error(`no field has the map entry ${message.name}.${entry.name}`);
    entry.name = `${field.name.replaceAll(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase())}Entry`;
    field.typeName = [...field.typeName.split('.').slice(0, -1), entry.name].join('.');
  }
}
