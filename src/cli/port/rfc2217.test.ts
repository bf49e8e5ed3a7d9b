import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineside } from '../../shared/proto/services.ts';
import { Rfc2217 } from './rfc2217.ts';
import { negotiation, subnegotiation } from './telnet.ts';

const { PARITY, BREAK, OVERRUN } = lineside.v1.LineError.Fault;
const COM_PORT = 44;

function start() {
  const written: Buffer[] = [];
  const commands: lineside.v1.LineCommand.$Properties[] = [];
  const protocol = new Rfc2217({
    port: {
      send: async () => {},
      command: async (command) => {
        commands.push(command);
        return {};
      },
    },
    signature: '',
    write: (bytes) => void written.push(Buffer.from(bytes)),
    onResume: () => {},
  });
  written.length = 0;
  return { protocol, written, commands };
}

/** As subnegotiations of COM-PORT. */
const options = (...values: readonly number[][]): Buffer[] =>
  values.map((value) => Buffer.from(subnegotiation(COM_PORT, Uint8Array.from(value))));

test('a client that takes the offer of COM-PORT without an answer gets the modem state, once', () => {
  const { protocol, written } = start();
  const mask = subnegotiation(COM_PORT, Uint8Array.of(11, 0xff));
  protocol.take(mask);
  protocol.take(mask);
  assert.deepEqual(written, options([107, 0], [111, 0xff], [111, 0xff]));
});

test('line errors are asked of the box when the client wants any, and are notified by its mask', async () => {
  const { protocol, written, commands } = start();
  const notified = { errors: [{ kind: PARITY }, { kind: OVERRUN }] };
  protocol.take(negotiation('will', COM_PORT));
  written.length = 0;
  protocol.lineErrors(notified);
  assert.deepEqual(written, [], 'the mask is 0 at first');
  protocol.take(subnegotiation(COM_PORT, Uint8Array.of(10, 0x06)));
  await new Promise((resolve) => setImmediate(resolve));
  protocol.lineErrors(notified);
  protocol.lineErrors({ errors: [{ kind: BREAK }] });
  assert.deepEqual(written, options([110, 0x06], [106, 0x06]));
  protocol.take(subnegotiation(COM_PORT, Uint8Array.of(10, 0x60)));
  assert.deepEqual(commands, [{ lineErrors: true }, { lineErrors: false }]);
});
