/** The socket units: however often the service has to be started, it has them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bootBox, dropIn } from './box.ts';
import { nspawnMissing } from './nspawn.ts';

const limits = { skip: nspawnMissing(), timeout: 200_000 };

test('every socket stays open for a service that fails many times in a row', limits, async () => {
  const box = await bootBox();
  // Up at the fourteenth try.
  const count = 'echo >>/run/tries; [ $$(wc -l </run/tries) -ge 14 ]';
  const restart = 'RestartSteps=0\nRestartMaxDelaySec=infinity';
  dropIn(box, 'lineside.service', `[Service]\nExecStartPre=+/bin/sh -c '${count}'\n${restart}\n`, 'zz');
  await box.sh('systemctl daemon-reload; systemctl kill --signal=KILL lineside');
  await box.until('up at last', '[ $(wc -l </run/tries) -ge 14 ] && lineside status && lineside outbox');
  assert.equal(await box.sh('journalctl --unit="lineside*.socket" | grep start-limit-hit || true'), '');
});

test('a socket that is not open is a failure for the doctor and an alert, and a restart opens it', limits, async () => {
  const box = await bootBox();
  await box.sh('lineside identity create && systemctl restart lineside');
  await box.until('ready', 'systemctl is-active lineside lineside-hub && lineside outbox');
  const listeners = 'lineside doctor | grep " listeners " ';
  assert.match(await box.sh(listeners), /^ok +listeners +connections are taken on .*\[::\]:8443/);
  // As an installation left it once: the hub alone, its sockets closed.
  await box.sh('systemctl stop lineside-hub.service && systemctl mask --runtime lineside-hub-local.socket');
  await box.sh('systemctl --job-mode=ignore-dependencies start lineside-hub.service');
  const alert = await box.until('the alert', 'lineside alerts | grep LinesideSocketClosed');
  assert.match(alert, /not open: lineside-hub\.socket, lineside-hub-lan\.socket;/);
  const found = await box.sh('lineside doctor || true');
  assert.match(found, /failed +listeners +lineside-hub\.socket is not open \(\/run\/lineside\/http\.sock\)/);
  assert.match(found, /failed +lineside-hub-lan\.socket is not open \(\[::\]:8443\)/);
  await box.sh('systemctl restart lineside');
  await box.until(
    'all well',
    `lineside outbox && ${listeners} | grep ^ok && ! lineside alerts | grep LinesideSocketClosed`,
  );
});
