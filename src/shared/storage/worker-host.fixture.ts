/** A worker for the tests of the worker host. */
import { isStopRequested, serve } from './worker-serve.ts';

export interface EchoCalls {
  echo: { request: string; response: string };
  size: { request: ArrayBuffer; response: number };
  fail: { request: string; response: never };
  die: { request: string; response: never };
  look: { request: string; response: string };
  spin: { request: boolean; response: never };
}

serve<EchoCalls>({
  echo: (text) => text,
  size: (buffer) => buffer.byteLength,
  fail(code) {
    throw Object.assign(new Error('asked to fail'), { code });
  },
  look(text) {
    while (!isStopRequested());
    return text;
  },
  die: () => process.exit(3),
  spin(on) {
    for (;;) if (!on) throw new Error('never');
  },
});
