/** The service does the same under Debian 12's systemd (252) and under Debian 13's (257). */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Box, bootBox, PORT } from './box.ts';
import { bookwormTree, nspawnMissing, trixieTree } from './nspawn.ts';

const SOCKETS = ['', '-local', '-hub', '-hub-local'].map((name) => `lineside${name}.socket`).join(' ');
const systems = [
  ['Debian 12', bookwormTree],
  ['Debian 13', trixieTree],
] as const;

for (const [system, tree] of systems) {
  describe(`the service on ${system}`, { skip: nspawnMissing(), timeout: 280_000 }, () => {
    let box: Box;
    before(async () => {
      box = await bootBox([], tree());
      await box.sh(`lineside open ${PORT}`);
    });

    const property = (units: string, name: string) => box.sh(`systemctl show --value --property=${name} ${units}`);
    const pids = async () => (await property('lineside lineside-hub', 'MainPID')).split(/\n+/);
    const ready = () =>
      box.until('both ready', 'systemctl is-active lineside lineside-hub && lineside outbox && lineside status');
    /** When each socket was opened. */
    const opened = () => property(SOCKETS, 'ActiveEnterTimestampMonotonic');

    test('takes every key of the units', async () => {
      assert.equal(await box.sh('journalctl --boot --grep="Unknown key|Unknown lvalue" || true'), '-- No entries --');
    });

    test('a process that is killed comes back alone, and its callers wait', async () => {
      const before = await opened();
      for (const [index, unit, call] of [
        [0, 'lineside', 'lineside devices'],
        [1, 'lineside-hub', 'lineside outbox'],
      ] as const) {
        const old = await pids();
        await box.sh(`kill -KILL ${old[index]}; ${call}`);
        await box.until(
          'another process',
          `[ "$(systemctl show --value --property=MainPID ${unit})" != ${old[index]} ]`,
        );
        await ready();
        assert.equal((await pids())[1 - index], old[1 - index], `${unit} was killed, the other one was not`);
      }
      assert.equal(await opened(), before);
    });

    test('a restart takes both along and leaves the sockets open', async () => {
      const [before, old] = [await opened(), await pids()];
      await box.sh('systemctl restart lineside');
      await ready();
      const now = await pids();
      assert.ok(now[0] !== old[0] && now[1] !== old[1], `${old.join(' ')}, then ${now.join(' ')}`);
      assert.equal(await opened(), before);
    });

    test('stopped while it waits for its next start, it stays stopped with all its sockets', async () => {
      const [line] = await pids();
      await box.sh(`kill -KILL ${line}; systemctl stop lineside`);
      await box.until('all closed', `! systemctl is-active lineside.service lineside-hub.service ${SOCKETS}`);
      assert.equal(await box.sh('ss -Hltn; ls /run/lineside'), '');
      await box.sh('systemctl start lineside');
      await ready();
    });

    test('a start with a faulty configuration says so at once, and succeeds automatically when that is corrected', async () => {
      await box.sh('systemctl stop lineside; cp -p /etc/lineside/lineside.toml /root/good.toml');
      await box.sh('echo "nonsense = 1" >>/etc/lineside/lineside.toml');
      const started = await box.run(['systemctl', 'start', 'lineside']);
      assert.equal(started.status, 1);
      assert.match(
        started.stderr,
        /^Job for lineside\.service failed because the control process exited with error code\./,
      );
      await box.sh('cp -p /root/good.toml /etc/lineside/lineside.toml');
      await ready();
    });
  });
}
