import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { avahiService } from './identity.ts';

function records(xml: string): string[] {
  return [...xml.matchAll(/<txt-record>(.*)<\/txt-record>/g)].map((match) => match[1] ?? '');
}

test("the package's record is that of a box without an identity", () => {
  const packaged = readFileSync(new URL('../../../systemd/avahi/lineside.service', import.meta.url), 'utf8');
  assert.equal(packaged, avahiService({}));
  assert.deepEqual(records(packaged), ['http=8443']);
});

test('a box with an identity says who it is, the fingerprint without colons', () => {
  const xml = avahiService({ deviceId: 'gate-7', caFingerprint: 'AB:CD:EF' });
  assert.deepEqual(records(xml), ['http=8443', 'id=gate-7', 'fp=abcdef']);
});
