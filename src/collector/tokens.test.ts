import assert from 'node:assert/strict';
import { chmodSync, chownSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { temporaryDirectory } from './batches.fixture.ts';
import { addDeviceToken, revokeDeviceTokens } from './tokens.ts';

const skip = process.getuid?.() === 0 ? false : 'only root can give a file to another user';

it('root adds and revokes tokens in a file that stays the one of the user that the collector runs as', {
  skip,
}, async () => {
  const directory = temporaryDirectory();
  const file = join(directory, 'tokens');
  chownSync(directory, 0, 4_321);
  addDeviceToken(file, 'box-1');
  assert.deepEqual([statSync(file).uid, statSync(file).gid], [0, 4_321], "a new one has its directory's group");
  chownSync(file, 1_234, 2_345);
  chmodSync(file, 0o600);
  const look = (): number[] => [statSync(file).uid, statSync(file).gid, statSync(file).mode & 0o777];
  addDeviceToken(file, 'box-2');
  assert.deepEqual(look(), [1_234, 2_345, 0o600]);
  revokeDeviceTokens(file, 'box-2');
  assert.deepEqual(look(), [1_234, 2_345, 0o600]);
});
