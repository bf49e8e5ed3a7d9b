/** The socket units: however often the service has to be started, it has them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bootBox, dropIn } from './box.ts';
import { nspawnMissing } from './nspawn.ts';

const limits = { skip: nspawnMissing(), timeout: 200_000 };

test('no socket gives up on a service that fails many times in a row', limits, async () => {
  const box = await bootBox();
  // As Debian 12 has it: a restart takes along what is part of the service. Up at the fourteenth try.
  const count = 'echo >>/run/tries; [ $$(wc -l </run/tries) -ge 14 ]';
  const restart = 'RestartMode=normal\nRestartSteps=0\nRestartMaxDelaySec=infinity';
  dropIn(box, 'lineside.service', `[Service]\nExecStartPre=+/bin/sh -c '${count}'\n${restart}\n`, 'zz');
  await box.sh('systemctl daemon-reload; systemctl kill --signal=KILL lineside');
  await box.until('up at last', '[ $(wc -l </run/tries) -ge 14 ] && lineside status && lineside outbox');
  assert.equal(await box.sh('journalctl --unit="lineside*.socket" | grep start-limit-hit || true'), '');
});
