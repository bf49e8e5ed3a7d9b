import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { it } from 'node:test';
import { CliFailure } from '../failure.ts';
import { Output } from './output.ts';

it('an output that cannot be written is the disk’s fault, and is not called a defect', async (t) => {
  const stream = createWriteStream('/dev/full');
  t.after(() => stream.destroy());
  const output = new Output(stream);
  t.after(() => output.release());
  const failed = once(stream, 'error').catch(() => undefined);
  await output.write('one line\n');
  await failed;
  await assert.rejects(
    output.write('another\n'),
    (error) =>
      error instanceof CliFailure &&
      error.what === 'cannot write the output' &&
      error.message === 'no space left on the device',
  );
});
