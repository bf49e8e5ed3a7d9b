/** A real broker for a row, as the tests have it; on request with several addresses, each behind a gate of its own. */

import { freePort } from '../free-port.ts';
import { type Gate, openGate } from '../gate.ts';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import type { KafkaPorts } from '../kafka/kafka.ts';
import { Skipped } from './processes.ts';

type Properties = Readonly<Record<string, string>>;

export function rowsBroker(properties: (ports: KafkaPorts) => Properties = () => ({})): Promise<TestBroker> {
  if (brokerMissing !== false) throw new Skipped(brokerMissing);
  return startBroker(properties);
}

/** What goes through a gate is one box's. */
export async function gatedBroker(count: number): Promise<{ broker: TestBroker; gates: readonly Gate[] }> {
  const behind: { readonly name: string; readonly port: number; readonly gate: Gate }[] = [];
  for (let n = 0; n < count; n++) {
    const port = await freePort();
    behind.push({ name: `GATE${n}`, port, gate: await openGate(() => port) });
  }
  const broker = await rowsBroker(({ plain, controller }) => {
    const at = (port: number): string => `127.0.0.1:${port}`;
    const own = `PLAIN://${at(plain)}`;
    const listeners = [
      own,
      ...behind.map(({ name, port }) => `${name}://${at(port)}`),
      `CONTROLLER://${at(controller)}`,
    ];
    const plaintext = behind.map(({ name }) => `${name}:PLAINTEXT`);
    return {
      listeners: listeners.join(','),
      'advertised.listeners': [own, ...behind.map(({ name, gate }) => `${name}://${at(gate.port)}`)].join(','),
      'listener.security.protocol.map': ['PLAIN:PLAINTEXT', 'CONTROLLER:PLAINTEXT', ...plaintext].join(','),
    };
  });
  return { broker, gates: behind.map(({ gate }) => gate) };
}
