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
  assert.ok(theirs.includes('serial.Packet.tags: serial.Packet.TagsEntry 3 LABEL_REPEATED'), 'the map is compared too');
  assert.deepEqual(namesIn(Buffer.from(descriptorsBase64, 'base64')), theirs);
});

interface Message {
  readonly name: string;
  readonly field: { name: string; number: number; type: number; typeName?: string; label: number }[];
  readonly nestedType: Message[];
}

interface File {
  readonly name: string;
  readonly package: string;
  readonly dependency: string[];
  readonly messageType: Message[];
}

/** A line for each file, message and field. Type names are compared by their last two parts: both may leave out the package. */
function namesIn(bytes: Uint8Array): string[] {
  const set = descriptor.FileDescriptorSet.decode(bytes) as unknown as { file: File[] };
  const labels = ['', 'LABEL_OPTIONAL', 'LABEL_REQUIRED', 'LABEL_REPEATED'];
  const lines: string[] = [];
  const visit = (scope: string, message: Message): void => {
    const own = `${scope}.${message.name}`;
    lines.push(own);
    for (const field of message.field) {
      const type =
        field.typeName === undefined || field.typeName === '' ? `type ${field.type}` : resolved(own, field.typeName);
      lines.push(`${own}.${field.name}: ${type} ${field.number} ${labels[field.label]}`);
    }
    for (const nested of message.nestedType) visit(own, nested);
  };
  for (const file of set.file) {
    lines.push(`${file.name} ${file.package} ${file.dependency.toSorted().join(' ')}`);
    for (const message of file.messageType) visit(file.package, message);
  }
  const known = lines.filter((line) => !line.includes(' '));
  return lines.map((line) => complete(line, known)).toSorted();
}

/** protoc writes ".serial.Packet.TagsEntry", protobufjs "TagsEntry": scopes are tried from the inside. */
function resolved(scope: string, typeName: string): string {
  return typeName.startsWith('.') ? typeName.slice(1) : `?${scope}|${typeName}`;
}

function complete(line: string, known: readonly string[]): string {
  return line.replace(/\?([^|]+)\|(\S+)/, (_, scope: string, name: string) => {
    const parts = scope.split('.');
    for (let depth = parts.length; depth >= 0; depth -= 1) {
      const candidate = [...parts.slice(0, depth), name].join('.');
      if (known.includes(candidate)) return candidate;
    }
    // Enumerations are not listed: as protoc resolves them, in the scope of the message or of the package.
    return enums[name] ?? `unresolved ${name}`;
  });
}

const enums: Readonly<Record<string, string>> = {
  Parity: 'serial.Parity',
  StopBits: 'serial.StopBits',
  StatusCode: 'serial.StatusCode',
  Direction: 'serial.SerialLogEntry.Direction',
  PortState: 'lineside.v1.PortState',
  LogState: 'lineside.v1.LogState',
  ClockState: 'lineside.v1.ClockState',
  EntryClock: 'lineside.v1.EntryClock',
  ServingStatus: 'grpc.health.v1.HealthCheckResponse.ServingStatus',
  Cause: 'lineside.v1.UpstreamGap.Cause',
  'serial.Parity': 'serial.Parity',
  'serial.StopBits': 'serial.StopBits',
  'serial.SerialLogEntry.Direction': 'serial.SerialLogEntry.Direction',
};
