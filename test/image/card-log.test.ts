/** The reader of the log of a card's writes, held against what QEMU's own tool wrote. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { CardLog } from './card-log.ts';

const missing = spawnSync('qemu-io', ['--version']).status === 0 ? false : 'qemu-io is not installed';

test('reads every write, flush and discard in their order, with its data', { skip: missing }, (t) => {
  const dir = temporaryDirectory(t);
  const [card, log] = [join(dir, 'card'), join(dir, 'log')];
  for (const file of [card, log]) writeFileSync(file, '');
  truncateSync(card, 8 << 20);
  const image = `driver=blklogwrites,file.driver=file,file.filename=${card},log.driver=file,log.filename=${log}`;
  const commands = ['write -P 0x41 1M 4k', 'flush', 'write -P 0x42 2M 8k', 'write -P 0x43 3M 512', 'discard 1M 4k'];
  execFileSync('qemu-io', ['--image-opts', image, ...commands.flatMap((command) => ['-c', command])]);
  const reader = new CardLog(log);
  t.after(() => reader.close());
  const shown = [...reader.writes()].map((write) => {
    if (write.flush) return 'flush';
    const data = write.dataAt === undefined ? 'discarded' : reader.data(write);
    const of = typeof data === 'string' ? data : `${data[0]?.toString(16)} to ${data.at(-1)?.toString(16)}`;
    return `${write.offset} ${write.length} ${of}`;
  });
  const expected = ['1048576 4096 41 to 41', 'flush', '2097152 8192 42 to 42', '3145728 512 43 to 43', 'flush'];
  assert.deepEqual(shown, [...expected, '1048576 4096 discarded', 'flush']);
});
