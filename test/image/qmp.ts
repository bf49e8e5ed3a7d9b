/** QEMU's control socket: commands in, answers and events out, one JSON object a line. */
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';

export interface Qmp {
  /** Rejects where the emulator refuses it or ends. */
  execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown>;
}

interface Line {
  readonly QMP?: unknown;
  readonly event?: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
}

interface Waiting {
  readonly settle: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export async function connectQmp(
  socket: Socket,
  onEvent: (event: string, data: Readonly<Record<string, unknown>>) => void,
): Promise<Qmp> {
  // Answers come in the order of the commands.
  const waiting: Waiting[] = [];
  const fail = (): void => {
    for (const { reject } of waiting.splice(0)) reject(new Error('the emulator has ended'));
  };
  socket.on('error', fail).on('close', fail);
  createInterface({ input: socket }).on('line', (text) => {
    const line = JSON.parse(text) as Line;
    if (line.event !== undefined) onEvent(line.event, line.data ?? {});
    else if (line.error !== undefined) waiting.shift()?.reject(new Error(line.error.desc));
    else if (line.QMP === undefined) waiting.shift()?.settle(line.return);
  });
  const execute: Qmp['execute'] = (command, args = {}) =>
    new Promise((settle, reject) => {
      waiting.push({ settle, reject });
      socket.write(`${JSON.stringify({ execute: command, arguments: args })}\n`);
    });
  await execute('qmp_capabilities');
  return { execute };
}
