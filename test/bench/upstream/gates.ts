/** A real broker with several addresses, each behind a gate of its own: what goes through one is one box's. */
import { join } from 'node:path';
import { kafkaJars, Missing } from '../../kafka/jars.ts';
import { startKafka } from '../../kafka/kafka.ts';
import { type Gate, openGate } from '../../soak/fleet-gate.ts';
import { freePort } from '../peers/peers.ts';
import { Skipped, temporaryDirectory } from '../processes.ts';

export interface GatedBroker {
  /** "127.0.0.1:port", no password and no gate. */
  readonly bootstrap: string;
  readonly gates: readonly Gate[];
  close(): Promise<void>;
}

export async function startGatedBroker(count: number): Promise<GatedBroker> {
  const jars = await kafkaJars().catch((error: unknown) => {
    throw error instanceof Missing ? new Skipped(`no Apache Kafka here: ${error.message}`) : error;
  });
  const ports = {
    plain: await freePort(),
    sasl: await freePort(),
    expired: await freePort(),
    controller: await freePort(),
  };
  const behind: { readonly name: string; readonly port: number; readonly gate: Gate }[] = [];
  for (let n = 0; n < count; n++) {
    const port = await freePort();
    behind.push({ name: `GATE${n}`, port, gate: await openGate(() => port) });
  }
  const plain = `PLAIN://127.0.0.1:${ports.plain}`;
  const kafka = await startKafka({
    jars,
    dir: join(temporaryDirectory(), 'kafka'),
    ports,
    properties: {
      listeners: [
        plain,
        ...behind.map(({ name, port }) => `${name}://127.0.0.1:${port}`),
        `CONTROLLER://127.0.0.1:${ports.controller}`,
      ].join(','),
      'advertised.listeners': [plain, ...behind.map(({ name, gate }) => `${name}://127.0.0.1:${gate.port}`)].join(','),
      'listener.security.protocol.map': [
        'PLAIN:PLAINTEXT',
        'CONTROLLER:PLAINTEXT',
        ...behind.map(({ name }) => `${name}:PLAINTEXT`),
      ].join(','),
    },
  });
  const gates = behind.map(({ gate }) => gate);
  return {
    bootstrap: `127.0.0.1:${ports.plain}`,
    gates,
    async close() {
      for (const gate of gates) gate.close();
      kafka.child.kill('SIGKILL');
      await kafka.ended;
    },
  };
}
