import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, credentials } from '@grpc/grpc-js';
import { Status } from 'nice-grpc';
import { HealthDefinition } from 'nice-grpc-server-health';
import { ServerReflectionService } from 'nice-grpc-server-reflection';
import reflectionPb from 'nice-grpc-server-reflection/lib/proto/grpc/reflection/v1/reflection_pb.js';
import descriptor from 'protobufjs/ext/descriptor.js';
import { hasStatus, startTestServer } from '../../../test/grpc/fakes.ts';

const SERVING = 1;
const NOT_SERVING = 2;

test('health says SERVING for the whole and for both services, NOT_FOUND for others', async () => {
  await using s = await startTestServer();
  const health = s.client(HealthDefinition);
  for (const service of ['', 'serial.SerialService', 'lineside.v1.LineService']) {
    assert.equal((await health.check({ service })).status, SERVING, service);
  }
  await assert.rejects(health.check({ service: 'x' }), hasStatus(Status.NOT_FOUND, /x/));
});

test('a health watcher gets NOT_SERVING, then UNAVAILABLE, when the service stops', async () => {
  await using s = await startTestServer();
  const watch = s.client(HealthDefinition).watch({ service: '' })[Symbol.asyncIterator]();
  assert.equal((await watch.next()).value?.status, SERVING);
  const ended = assert.rejects(
    async () => {
      for (let i = 0; i < 2; i++) assert.equal((await watch.next()).value?.status, NOT_SERVING);
    },
    hasStatus(Status.UNAVAILABLE, /stopping/),
  );
  await s.servers.stop();
  await ended;
});

for (const version of ['v1', 'v1alpha']) {
  test(`reflection ${version} lists the services, health among them, and gives the file of every symbol`, async () => {
    await using s = await startTestServer();
    const client = new Client(s.address, credentials.createInsecure());
    const { serverReflectionInfo: method } = ServerReflectionService;
    const ask = (request: InstanceType<typeof reflectionPb.ServerReflectionRequest>) =>
      new Promise<InstanceType<typeof reflectionPb.ServerReflectionResponse>>((resolve, reject) => {
        const call = client.makeBidiStreamRequest(
          method.path.replace('v1', version),
          method.requestSerialize,
          method.responseDeserialize,
        );
        call.on('data', resolve);
        call.on('error', reject);
        call.write(request);
        call.end();
      });
    try {
      const list = await ask(new reflectionPb.ServerReflectionRequest().setListServices('*'));
      assert.deepEqual(
        list
          .getListServicesResponse()
          ?.getServiceList()
          .map((service) => service.getName()),
        ['serial.SerialService', 'lineside.v1.LineService', 'grpc.health.v1.Health'],
      );
      const symbols = [
        ['serial.SerialService', 'serial.proto', ['google/protobuf/empty.proto'], 8],
        ['lineside.v1.LineService', 'lineside.proto', ['google/protobuf/empty.proto', 'serial.proto'], 11],
        ['serial.SerialLogEntry.Direction', 'serial.proto', ['google/protobuf/empty.proto'], 8],
        ['grpc.health.v1.Health', 'grpc/health/v1/health.proto', [], 2],
        ['google.protobuf.Empty', 'google/protobuf/empty.proto', [], 0],
      ] as const;
      for (const [symbol, name, imports, methods] of symbols) {
        const found = await ask(new reflectionPb.ServerReflectionRequest().setFileContainingSymbol(symbol));
        const [bytes] = found.getFileDescriptorResponse()?.getFileDescriptorProtoList_asU8() ?? [];
        const file = descriptor.FileDescriptorProto.toObject(
          descriptor.FileDescriptorProto.decode(bytes ?? new Uint8Array()),
          { arrays: true },
        );
        assert.equal(file.name, name);
        assert.equal(file.syntax, 'proto3');
        assert.deepEqual(file.dependency, [...imports]);
        assert.equal(file.service[0]?.method.length ?? 0, methods);
      }
      const byName = await ask(new reflectionPb.ServerReflectionRequest().setFileByFilename('serial.proto'));
      assert.equal(byName.getFileDescriptorResponse()?.getFileDescriptorProtoList().length, 1);
      const none = await ask(new reflectionPb.ServerReflectionRequest().setFileContainingSymbol('no.Such'));
      assert.equal(none.getErrorResponse()?.getErrorCode(), Status.NOT_FOUND);
    } finally {
      client.close();
    }
  });
}
