import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { promisedIn, socketUnits } from './socket-units.ts';

const shown = `Listen=/run/lineside/http.sock (Stream)
Id=lineside-hub.socket
LoadState=loaded
ActiveState=inactive

Listen=[::]:8443 (Stream)
Listen=10.0.0.7:8444 (Stream)
Id=lineside-hub-lan.socket
LoadState=loaded
ActiveState=active

Id=lineside-local.socket
LoadState=masked
ActiveState=inactive

Id=lineside-lan.socket
LoadState=not-found
ActiveState=inactive
`;
const hub = { unit: 'lineside-hub.socket', isOpen: false, addresses: ['/run/lineside/http.sock'] };
const lan = { unit: 'lineside-hub-lan.socket', isOpen: true, addresses: ['[::]:8443', '10.0.0.7:8444'] };

test('what systemd shows of the socket units, without those that promise nothing', () => {
  assert.deepEqual(promisedIn(shown, true), [hub, lan]);
  assert.deepEqual(promisedIn(shown, false), [hub], 'no certificate, no listener of the LAN');
  assert.deepEqual(promisedIn('', true), []);
});

test('every socket unit there is is asked for', () => {
  const units = readdirSync(resolve(import.meta.dirname, '../../../systemd')).filter((name) =>
    name.endsWith('.socket'),
  );
  assert.deepEqual([...socketUnits].sort(), units.sort());
});
