/**
 * A card with two slots, for the helper alone: in a mount namespace of its own it sees a boot partition, the key of updates, and
 * systemd's programs, of which systemctl starts the units' own command lines. Needs root.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { type TestBox, testBox } from '../../src/appliance/update/update.fixture.ts';
import { MAIN, NODE, ROOT, temporaryDirectory } from '../e2e/daemon.ts';

export interface Card {
  readonly box: TestBox;
  /** Runs a command with the card. */
  command(words: readonly string[]): readonly [string, ...string[]];
  /** What the machine of this process was started from; the process is one that runs with the card. */
  insert(pid: number): void;
  /** The command lines of systemctl so far. */
  calls(): string[];
}

/** `stateDir`, `workDir`: of the helper. */
export function makeCard(stateDir: string, workDir: string, configFile: string): Card {
  const dir = temporaryDirectory();
  const box = testBox({ after });
  cpSync(box.at('root-a'), box.at('p2'));
  cpSync(box.at('root-b'), box.at('p3'));
  const at = (...names: string[]): string => join(dir, ...names);
  mkdirSync(at('lib/lineside'), { recursive: true });
  mkdirSync(at('bin'));
  for (const name of ['board', 'update.pub']) cpSync(box.at(name), at('lib/lineside', name));
  // At once, instead of after its delay.
  writeFileSync(at('bin/systemd-run'), '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n', {
    mode: 0o755,
  });
  writeFileSync(at('bin/systemctl'), systemctl(at('calls'), stateDir, workDir, configFile), { mode: 0o755 });
  const mounts = [
    'mount -t tmpfs tmpfs /run',
    'mount -t tmpfs tmpfs /boot',
    'mkdir /boot/firmware',
    // Of its own: it is remounted.
    'mount -t tmpfs tmpfs /boot/firmware',
    `cp -r ${box.at('boot')}/. /boot/firmware`,
    'mount -o remount,ro /boot/firmware',
    `mount -t overlay overlay -o lowerdir=${at('lib')}:/usr/lib /usr/lib`,
    `mount -t overlay overlay -o lowerdir=${at('bin')}:/usr/bin /usr/bin`,
  ];
  return {
    box,
    command: (words) => ['unshare', '--mount', 'sh', '-ec', [...mounts, 'exec "$@"'].join('\n'), 'sh', ...words],
    insert(pid) {
      writeFileSync(`/proc/${pid}/root/run/lineside-boot`, `SLOT=a\nTRYING=no\nPART=${box.at('p')}\n`);
    },
    calls: () => readFileSync(at('calls'), 'utf8').trim().split('\n'),
  };
}

/** Starts what the units start, with the directories of the test. */
function systemctl(calls: string, stateDir: string, workDir: string, configFile: string): string {
  const commandOf = (unit: string): string =>
    (/^ExecStart=(.*)$/m.exec(readFileSync(join(ROOT, unit), 'utf8'))?.[1] ?? '')
      .replace('/usr/bin/lineside', `${NODE} ${MAIN}`)
      .replaceAll('/run/lineside-work', workDir)
      .replaceAll('/var/lib/lineside-admin', stateDir);
  const start = (command: string): string =>
    `mkdir -p ${workDir}; (${command}; rm -f ${stateDir}/*.bundle ${stateDir}/*.backup) >/dev/null 2>&1 </dev/null & ;;`;
  return `#!/bin/sh
echo "$*" >>${calls}
case "$*" in
  'start lineside-admin-update.service') ${start(commandOf('image/units/lineside-admin-update.service'))}
  'start lineside-admin-restore.service')
    ${start(`${commandOf('systemd/lineside-admin-restore.service')} --config ${configFile}`)}
  is-active*) ls ${stateDir}/*.bundle ${stateDir}/*.backup 2>/dev/null | grep -q . ;;
esac
`;
}
