/** Beyond the contract: lineside.v1.LineService. */
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { residentBytes } from '../../shared/base/resident-bytes.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { readBatches } from './batches.ts';
import { callerOf } from './gate.ts';
import { readRequest } from './read-request.ts';
import { type ServiceParts, standing } from './serial-service.ts';
import { Session } from './session.ts';
import { lineStatus } from './status.ts';
import type { LineServer } from './wire.ts';

export function lineService(
  parts: ServiceParts,
  version: string,
  configurationRefused = (): string => '',
): ServiceImplementation<typeof LineServer> {
  const { line, log, clock, refusals } = parts;
  const startedMs = clock.monoMs();
  let sessions = 0;
  return {
    async getStatus() {
      try {
        return lineStatus(line.snapshot(), await log.status(), {
          uptimeMs: clock.monoMs() - startedMs,
          version,
          residentBytes: residentBytes(),
          subscribers: log.readers,
          configurationRefused: configurationRefused(),
        });
      } catch (error) {
        throw refusals.asStatus(error);
      }
    },

    readLog: (request: lineside.v1.ReadLogRequest, context: CallContext) => readLog(parts, request, context),

    async getModemLines() {
      try {
        return line.modemLines();
      } catch (error) {
        throw refusals.asStatus(error);
      }
    },

    async setModemLines(request: lineside.v1.SetModemLinesRequest) {
      try {
        // `optional` fields that were not sent are null in the generated class.
        const { dtr, rts } = request;
        return line.setModemLines({
          ...(typeof dtr === 'boolean' && { dtr }),
          ...(typeof rts === 'boolean' && { rts }),
        });
      } catch (error) {
        throw refusals.asStatus(error);
      }
    },

    async sendBreak({ durationMs }: lineside.v1.SendBreakRequest) {
      try {
        await line.sendBreak(durationMs);
        return {};
      } catch (error) {
        throw refusals.asStatus(error);
      }
    },

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      return session(parts, requests, context, `${callerOf(context)}#${sessions}`);
    },
  };
}

async function* readLog(
  { log, subscriptions, refusals }: ServiceParts,
  request: lineside.v1.ReadLogRequest,
  context: CallContext,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    const wanted = readRequest(request, log.logId);
    const subscription = subscriptions.open(context.signal);
    try {
      const batches = readBatches(log, wanted, subscription.signal, () => subscriptions.count > 1);
      standing(context, log);
      for await (const batch of batches) yield batch;
      subscription.checkStopping();
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw refusals.asStatus(error);
  }
}

async function* session(
  parts: ServiceParts,
  requests: AsyncIterable<lineside.v1.SessionRequest>,
  context: CallContext,
  caller: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { log, subscriptions, refusals } = parts;
  try {
    const subscription = subscriptions.open(context.signal);
    try {
      standing(context, log);
      for await (const response of new Session(parts, caller, subscription).run(requests)) yield response;
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw refusals.asStatus(error);
  }
}
