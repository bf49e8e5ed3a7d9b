/**
 * The units refer to each other, so that systemctl handles them as one service. That systemd finds no fault with them is shown in
 * test/appliance/score.test.ts.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { keys } from '../../src/shared/config/config.ts';

const UNITS = ['lineside.service', 'lineside-hub.service'] as const;
const SOCKETS = readdirSync(resolve(import.meta.dirname, '../../systemd')).filter((name) => name.endsWith('.socket'));
const source = resolve(import.meta.dirname, '../../systemd');

function textOf(unit: string): string {
  return readFileSync(join(source, unit), 'utf8');
}

test('the two units are one service for systemctl, and each runs its own role', () => {
  const [line, hub] = UNITS.map(textOf);
  assert.match(line ?? '', /^Wants=lineside-hub\.service$/m);
  assert.match(hub ?? '', /^StopWhenUnneeded=yes$/m);
  assert.match(line ?? '', /^ExecStart=\/usr\/bin\/lineside serve --role line$/m);
  assert.match(hub ?? '', /^ExecStart=\/usr\/bin\/lineside serve --role hub$/m);
});

test('each socket is closed with its service, goes to it, and has the name that the service looks for', () => {
  for (const unit of SOCKETS) {
    const [service, name] = unit.includes('hub')
      ? ['lineside-hub.service', 'http']
      : unit.includes('admin')
        ? ['lineside-admin.service', 'admin']
        : ['lineside.service', 'grpc'];
    const text = textOf(unit);
    assert.match(text, /^StopWhenUnneeded=yes$/m, unit);
    assert.doesNotMatch(text, /^(PartOf|BindsTo|Requires)=/m, 'a crash would close it');
    assert.match(text, new RegExp(`^FileDescriptorName=${name}$`, 'm'), unit);
    assert.match(textOf(service), new RegExp(`^Sockets=.*\\b${unit}\\b`, 'm'), unit);
  }
});

test('the administration helper is started by its socket alone, which the hub wants and only its group may use', () => {
  const [helper, socket] = [textOf('lineside-admin.service'), textOf('lineside-admin.socket')];
  assert.match(helper, /^ExecStart=\/usr\/bin\/lineside admin-service$/m);
  assert.doesNotMatch(helper, /^(WantedBy|Restart|User)=/m);
  assert.match(textOf('lineside-hub.service'), /^Wants=lineside-admin\.socket$/m);
  assert.match(socket, /^SocketMode=0660$/m);
  assert.match(socket, /^SocketGroup=lineside-hub$/m);
  const key = keys.find(({ path }) => path === 'http.admin_socket');
  assert.match(socket, new RegExp(`^ListenStream=${String(key?.schema.default)}$`, 'm'));
});

test('systemd waits longer for the hub to stop than its longest drain takes', () => {
  const drain = keys.find(({ path }) => path === 'outbox.stop_grace_ms');
  const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(textOf('lineside-hub.service'))?.[1]);
  const longest = (drain?.schema as { maximum?: number } | undefined)?.maximum;
  assert.ok(longest !== undefined && seconds * 1_000 >= longest + 20_000, `${seconds} s for ${longest} ms`);
});
