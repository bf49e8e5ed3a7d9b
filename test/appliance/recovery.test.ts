/** Backup and restore on an installed box, under systemd: what is stopped and started, whose the files are, and a plug pulled in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bootBox } from './box.ts';
import { nspawnMissing } from './nspawn.ts';

const limit = { timeout: 300_000, skip: nspawnMissing() };

test(
  'an installed box is put back with its owners and modes, and an interrupted restore is ended before the service starts',
  limit,
  async () => {
    const box = await bootBox();
    const owners = `cd /; stat -c '%n %U:%G %a' etc/lineside/* var/lib/lineside/log.db var/lib/lineside-hub/refdata.db`;
    await box.sh('lineside token add kept --role admin >/dev/null && lineside backup /root/box.backup');
    const before = await box.sh(owners);
    await box.sh('lineside token add later --role admin >/dev/null; lineside restore /root/box.backup --yes');
    assert.match(await box.sh('lineside token list'), /^kept +/m);
    assert.doesNotMatch(await box.sh('lineside token list'), /later/);
    assert.equal(await box.sh(owners), before);
    await box.until('both run again', 'systemctl is-active lineside lineside-hub && lineside status');

    // As a plug that is pulled right after the journal leaves it.
    const moves = [{ dir: '/etc/lineside', name: 'tokens.json', hasNew: true }];
    const journal = JSON.stringify({ format: 'lineside-restore 1', moves });
    await box.sh(`cd /etc/lineside && mkdir -p .restore/new .restore/old && cp -p tokens.json .restore/new/ &&
    echo damaged >tokens.json && echo '${journal}' >.restore/journal.json && systemctl restart lineside`);
    assert.match(await box.sh('lineside token list'), /^kept +/m);
    assert.equal(await box.sh('ls -A /etc/lineside | grep -c restore || true'), '0');

    // A restore that cannot be ended is no box to start with.
    await box.sh('mkdir /etc/lineside/.restore && echo damaged >/etc/lineside/.restore/journal.json');
    assert.notEqual((await box.run(['systemctl', 'restart', 'lineside'])).status, 0);
    await box.sh('rm -r /etc/lineside/.restore && systemctl restart lineside');
    await box.until('both run again', 'systemctl is-active lineside lineside-hub');
  },
);
