/** Holds proto/serial.proto to the tables of the specification, copied here word for word: all of it, and nothing more. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { SerialServiceDefinition } from '../src/shared/proto/services.ts';

const enums: Record<string, Record<string, number>> = {
  Parity: { PARITY_NONE: 0, PARITY_EVEN: 1, PARITY_ODD: 2, PARITY_MARK: 3, PARITY_SPACE: 4 },
  StopBits: { STOPBITS_ONE: 0, STOPBITS_ONE_POINT_FIVE: 1, STOPBITS_TWO: 2 },
  StatusCode: { OK: 0, INVALID_ARGUMENT: 1, NOT_FOUND: 2, INTERNAL_ERROR: 3, NOT_CONNECTED: 4 },
  'SerialLogEntry.Direction': { TX: 0, RX: 1 },
};

/** As the specification's tables have them: field, type, number. */
const messages: Record<string, string> = {
  SerialDevice: `
    | port_name | string | 1 |
    | description | string | 2 |
    | hardware_id | string | 3 |`,
  SerialConfig: `
    | port_name | string | 1 |
    | baud_rate | uint32 | 2 |
    | data_bits | uint32 | 3 |
    | parity | Parity | 4 |
    | stop_bits | StopBits | 5 |
    | packet_size | uint32 | 6 |`,
  ConfigResponse: `
    | status | StatusCode | 1 |
    | error | string | 2 |`,
  Packet: `
    | seq_id | uint64 | 1 |
    | payload | bytes | 2 |
    | tags | map<string,string> | 3 |`,
  SendResponse: `
    | status | StatusCode | 1 |
    | error | string | 2 |
    | echo_seq_id | uint64 | 3 |`,
  SerialLogEntry: `
    | dir | Direction | 1 |
    | timestamp | uint64 | 2 |
    | raw_data | bytes | 3 |
    | note | string | 4 |`,
  LogStreamRequest: `
    | from_start | bool | 1 |`,
  DeviceList: `
    | devices | repeated SerialDevice | 1 |`,
};

/** Method, request, response. */
const methods = `
  | ListDevices | Empty | DeviceList |
  | Open | SerialConfig | ConfigResponse |
  | Close | Empty | ConfigResponse |
  | GetCurrentConfig | Empty | SerialConfig |
  | SendPacket | Packet | SendResponse |
  | ReceivePacket | Empty | Packet |
  | LogRaw | SerialLogEntry | Empty |
  | StreamLog | LogStreamRequest | stream of SerialLogEntry |`;

function rows(table: string): string[][] {
  const lines = table.split('\n').filter((line) => line.includes('|'));
  return lines.map((line) =>
    line
      .split('|')
      .map((cell) => cell.trim())
      .filter((cell) => cell !== ''),
  );
}

const root = new protobuf.Root();
const { package: packageName } = protobuf.parse(
  readFileSync(new URL('../proto/serial.proto', import.meta.url), 'utf8'),
  root,
  { keepCase: true },
);
const serial = root.lookup('serial');

function typeOf(field: protobuf.Field): string {
  if (field instanceof protobuf.MapField) return `map<${field.keyType},${field.type}>`;
  return field.repeated ? `repeated ${field.type}` : field.type;
}

test('the package holds the messages, enums and the service of the specification, and nothing more', () => {
  assert.equal(packageName, 'serial');
  assert.ok(serial instanceof protobuf.Namespace);
  const topEnums = Object.keys(enums).filter((name) => !name.includes('.'));
  assert.deepEqual(
    serial.nestedArray.map(({ name }) => name).sort(),
    [...Object.keys(messages), ...topEnums, 'SerialService'].sort(),
  );
  const nested = serial.nestedArray.filter((item) => item instanceof protobuf.Type).flatMap((type) => type.nestedArray);
  assert.deepEqual(
    nested.map(({ fullName }) => fullName),
    ['.serial.SerialLogEntry.Direction'],
  );
});

for (const [name, values] of Object.entries(enums)) {
  test(`enum ${name} has exactly its names and numbers`, () => {
    assert.deepEqual({ ...root.lookupEnum(`serial.${name}`).values }, values);
  });
}

for (const [name, table] of Object.entries(messages)) {
  test(`message ${name} has exactly its fields, types and numbers`, () => {
    const type = root.lookupType(`serial.${name}`);
    assert.deepEqual(
      type.fieldsArray.map((field) => [field.name, typeOf(field), String(field.id)]),
      rows(table),
    );
    assert.equal(type.oneofsArray.length, 0, 'no oneof and no optional');
  });
}

test('the service has exactly its methods, requests and responses; only StreamLog streams', () => {
  const service = root.lookupService('serial.SerialService');
  const found = service.methodsArray.map((method) => [
    method.name,
    method.requestType.replace('google.protobuf.', ''),
    (method.responseStream === true ? 'stream of ' : '') + method.responseType.replace('google.protobuf.', ''),
  ]);
  assert.deepEqual(found, rows(methods));
  assert.ok(service.methodsArray.every((method) => method.requestStream !== true));
});

test('the server knows every method by its path', () => {
  assert.deepEqual(
    Object.values(SerialServiceDefinition).map(({ path }) => path),
    rows(methods).map(([name]) => `/serial.SerialService/${name}`),
  );
});
