// Writes the FileDescriptorSet of proto/ as a module to the file named: what gRPC reflection answers from.
import { writeFileSync } from 'node:fs';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor.js';

const root = new protobuf.Root();
root.resolvePath = (_origin, target) =>
  target.startsWith('google/') ? target : `proto/${target.replace(/^proto\//, '')}`;
root.loadSync(['lineside.proto', 'serial.proto', 'grpc/health/v1/health.proto']).resolveAll();
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
writeFileSync(process.argv[2], `export const descriptorsBase64 = '${bytes.toString('base64')}';\n`);
writeFileSync(process.argv[2].replace(/\.js$/, '.d.ts'), 'export const descriptorsBase64: string;\n');

/** Clients insist on protoc's name for the entry type of a map: TagsEntry for tags. protobufjs gives it another. */
function nameMapEntries(message) {
  for (const entry of message.nestedType.filter(({ options }) => options?.mapEntry === true)) {
    const field = message.field.find(({ typeName }) => typeName?.split('.').at(-1) === entry.name);
    if (field === undefined) throw new Error(`no field has the map entry ${message.name}.${entry.name}`);
    entry.name = `${field.name.replaceAll(/(?:^|_)([a-z0-9])/g, (_, letter) => letter.toUpperCase())}Entry`;
    field.typeName = [...field.typeName.split('.').slice(0, -1), entry.name].join('.');
  }
}
