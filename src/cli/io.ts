/** What a command touches of the process: streams, environment, signals, clock. Handed in, so that tests drive it. */
import type { Readable, Writable } from 'node:stream';
import { type Clock, systemClock } from '../shared/base/clock.ts';

export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

export type CliInput = Readable & { readonly isTTY?: boolean; setRawMode?(on: boolean): unknown };
export type CliOutput = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export interface CliIo {
  readonly stdin: CliInput;
  readonly stdout: CliOutput;
  readonly stderr: CliOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Calls back when the process gets the signal, instead of dying; returns what ends that. */
  onSignal(signal: StopSignal, call: () => void): () => void;
}

/** The real process. Node's deprecation warnings (gRPC names IP addresses in TLS) are nothing a technician can act on. */
export function processIo(): CliIo {
  process.noDeprecation = true;
  return {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    clock: systemClock,
    onSignal(signal, call) {
      process.on(signal, call);
      return () => process.off(signal, call);
    },
  };
}
