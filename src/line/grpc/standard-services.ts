/**
 * Health and reflection, for standard gRPC tools. Their packages are loaded at the first call (25 ms and 2.5 MB that
 * most boxes never need), so the methods are declared here by their paths and exchange bytes.
 */
import type { CallContext, Server } from 'nice-grpc';
import type { HealthState } from 'nice-grpc-server-health';
import { once } from '../../shared/base/once.ts';
import { type StreamContext, subscribed } from './subscriptions.ts';

const SERVICES = ['serial.SerialService', 'lineside.v1.LineService'];
/** What reflection lists: the collector's service is another process's. */
const LISTED = [...SERVICES, 'grpc.health.v1.Health'];

const same = (bytes: Uint8Array): Uint8Array => bytes;
const raw = {
  requestSerialize: same,
  requestDeserialize: same,
  responseSerialize: same,
  responseDeserialize: same,
  options: {},
};

const Health = {
  check: { ...raw, path: '/grpc.health.v1.Health/Check', requestStream: false, responseStream: false },
  watch: { ...raw, path: '/grpc.health.v1.Health/Watch', requestStream: false, responseStream: true },
} as const;

/** v1alpha has the same messages; older tools (Debian's grpc_cli among them) know no other. */
const info = { ...raw, requestStream: true, responseStream: true } as const;
const Reflection = {
  v1: { ...info, path: '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo' },
  v1alpha: { ...info, path: '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo' },
};

export function standardServices(streams: StreamContext) {
  let serving = true;
  let state: HealthState | undefined;
  const apply = (): void => {
    for (const service of ['', ...SERVICES]) state?.setStatus(serving ? 'healthy' : 'unhealthy', service);
  };
  const health = once(async () => {
    const { HealthDefinition, HealthServiceImpl, HealthState } = await import('./standard-packages.ts');
    state = HealthState();
    // One listener for each Watch; their number is bounded by max_subscribers.
    state.setMaxListeners(0);
    apply();
    return { service: HealthServiceImpl(state), codec: HealthDefinition.methods.check };
  });
  const reflection = once(loadReflection);

  return {
    addTo(server: Server): void {
      server.add(Health, {
        check: async (request: Uint8Array, context: CallContext) => {
          const { service, codec } = await health();
          const answer = await service.check(codec.requestType.decode(request), context);
          return codec.responseType.encode(answer).finish();
        },
        watch: (request: Uint8Array, context: CallContext) =>
          subscribed(streams, context, async (subscription, out) => {
            try {
              const { service, codec } = await health();
              const asked = codec.requestType.decode(request);
              for await (const answer of iterable(service.watch(asked, { ...context, signal: subscription.signal }))) {
                await out.send(codec.responseType.encode(answer).finish());
              }
            } catch (error) {
              subscription.checkStopping();
              throw error;
            }
          }),
      });
      const reflect = async function* (requests: AsyncIterable<Uint8Array>, context: CallContext) {
        const { service, codec } = await reflection();
        const decoded = mapped(requests, (bytes) => codec.requestDeserialize(Buffer.from(bytes)));
        for await (const answer of iterable(service.serverReflectionInfo(decoded, context))) {
          yield codec.responseSerialize(answer);
        }
      };
      server.add(Reflection, { v1: reflect, v1alpha: reflect });
    },
    /** From now on health says NOT_SERVING. */
    stop(): void {
      serving = false;
      apply();
    },
  };
}

async function loadReflection() {
  const [{ ServerReflection, ServerReflectionService }, { descriptorsBase64 }] = await Promise.all([
    import('./standard-packages.ts'),
    import('../../shared/gen/descriptors.js'),
  ]);
  return {
    service: ServerReflection(new Uint8Array(Buffer.from(descriptorsBase64, 'base64')), LISTED),
    codec: ServerReflectionService.serverReflectionInfo,
  };
}

async function* mapped<A, B>(items: AsyncIterable<A>, map: (item: A) => B): AsyncGenerator<B, void, undefined> {
  for await (const item of items) yield map(item);
}

/** nice-grpc's implementations promise an iterator only. */
function iterable<T>(source: { [Symbol.asyncIterator](): AsyncIterator<T, void> }): AsyncIterable<T> {
  return source;
}
