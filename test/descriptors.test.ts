/** What reflection serves must be what protoc makes of the same files: clients such as grpcurl refuse anything less. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import descriptor from 'protobufjs/ext/descriptor.js';
import { descriptorsBase64 } from '../src/shared/gen/descriptors.js';

const dir = mkdtempSync(join(tmpdir(), 'descriptors-'));
after(() => rmSync(dir, { recursive: true }));

it('serves by reflection what protoc makes of the proto files', () => {
  const out = join(dir, 'set.bin');
  // Google's own file; Debian has it in a package of 20 MB (libprotobuf-dev).
  mkdirSync(join(dir, 'google/protobuf'), { recursive: true });
  const empty = 'syntax = "proto3";\npackage google.protobuf;\nmessage Empty {}\n';
  writeFileSync(join(dir, 'google/protobuf/empty.proto'), empty);
  execFileSync(
    'protoc',
    [
      '-Iproto',
      `-I${dir}`,
      '--include_imports',
      `--descriptor_set_out=${out}`,
      'lineside.proto',
      'grpc/health/v1/health.proto',
    ],
    {
      cwd: join(import.meta.dirname, '..'),
    },
  );
  const theirs = namesIn(readFileSync(out));
  assert.ok(theirs.includes('serial.Packet.tags: TagsEntry 3 LABEL_REPEATED'), 'the map is compared too');
  assert.deepEqual(namesIn(Buffer.from(descriptorsBase64, 'base64')), theirs);
});

interface Message {
  readonly name: string;
  readonly field: { name: string; number: number; type: number; typeName?: string; label: number }[];
  readonly nestedType: Message[];
  readonly enumType: { name: string }[];
}

interface File {
  readonly name: string;
  readonly package: string;
  readonly dependency: string[];
  readonly messageType: Message[];
  readonly enumType: { name: string }[];
}

/** A line for each file, message and field. Types by their simple names, which are all different: protobufjs leaves out the scopes. */
function namesIn(bytes: Uint8Array): string[] {
  const set = descriptor.FileDescriptorSet.decode(bytes) as unknown as { file: File[] };
  const labels = ['', 'LABEL_OPTIONAL', 'LABEL_REQUIRED', 'LABEL_REPEATED'];
  const lines: string[] = [];
  const types: string[] = [];
  const visit = (scope: string, message: Message): void => {
    const own = `${scope}.${message.name}`;
    lines.push(own);
    types.push(message.name, ...message.enumType.map(({ name }) => name));
    for (const field of message.field) {
      const type = field.typeName?.split('.').at(-1) || `type ${field.type}`;
      lines.push(`${own}.${field.name}: ${type} ${field.number} ${labels[field.label]}`);
    }
    for (const nested of message.nestedType) visit(own, nested);
  };
  for (const file of set.file) {
    lines.push(`${file.name} ${file.package} ${file.dependency.toSorted().join(' ')}`);
    types.push(...file.enumType.map(({ name }) => name));
    for (const message of file.messageType) visit(file.package, message);
  }
  assert.deepEqual(types.toSorted(), [...new Set(types)].toSorted(), 'no simple name is there twice');
  return lines.toSorted();
}
