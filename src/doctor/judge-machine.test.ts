/** The findings of the checks of the machine: of the good state, and of every bad one. */
import { wellHost } from '../shared/host/host-facts.fixture.ts';
import type { HostFacts } from '../shared/host/host-facts.ts';
import { type DiskFacts, judgeDatabase, judgeDisk } from './checks/disk.ts';
import { judgeClock, judgeMachine, judgeSlots } from './checks/machine.ts';
import { judged } from './table.fixture.ts';

const clock = { nowMs: Date.UTC(2026, 10, 22), state: 'synced', builtMs: 0, uptimeS: 5_000 } as const;
judged('the clock', judgeClock, clock, [
  ['a clock that was set', {}, 'ok', /2026-11-22T00:00:00Z, set/],
  ['1970', { nowMs: 0 }, 'failed', /1970.*before this was built/],
  ['a year before the system was built', { builtMs: clock.nowMs + 1 }, 'failed', /before/],
  ['a year far ahead', { nowMs: Date.UTC(2150, 0, 1) }, 'failed', /2150/],
  ['one not set since an hour', { state: 'unsynced' }, 'warning', /time server/],
  ['one not set a minute after the boot', { state: 'unsynced', uptimeS: 60 }, 'ok', /60 s/],
  ['one that no time sync confirms', { state: 'unknown' }, 'ok', /no time sync/],
]);

const gib = 1024 ** 3;
const disk: DiskFacts = {
  dir: '/d',
  freeBytes: 9 * gib,
  totalBytes: 10 * gib,
  inodes: 1000,
  freeInodes: 900,
  write: 'done',
  usedBytes: 0,
  budgetBytes: gib,
  minFreeBytes: 64 * 1024 ** 2,
};
judged('the disk', judgeDisk, disk, [
  ['room', {}, 'ok', /9216 MiB of 10240 MiB free/],
  ['a read-only mount', { write: 'EROFS' }, 'failed', /mounted read-only/],
  ['less than outbox.min_free_bytes', { freeBytes: 1024 ** 2 }, 'failed', /min_free_bytes.*changes are refused/],
  ['a log that will not fit', { freeBytes: gib / 2 }, 'warning', /grow by 1024 MiB.*log\.max_bytes/],
  ['a log that is as large as it gets', { freeBytes: gib / 2, usedBytes: gib }, 'ok', /free/],
  ['no inodes', { freeInodes: 3 }, 'failed', /3 inodes/],
  ['a file system without inodes', { inodes: 0, freeInodes: 0 }, 'ok', /free/],
  ['a full disk', { write: 'ENOSPC' }, 'failed', /is full/],
  ['an I/O error', { write: 'EIO' }, 'failed', /EIO.*replace the card/],
  ['a user who may not write', { write: 'denied' }, 'skipped', /root/],
]);

const database = {
  name: 'log.db',
  state: 'sound',
  detail: '',
  bytes: 2 * 1024 ** 2,
  walBytes: 0,
  figures: {},
} as const;
judged('a database', judgeDatabase, database, [
  ['a sound one', {}, 'ok', /2 MiB, readable/],
  ['one that waits for its log', { state: 'left', walBytes: 1024 ** 2 }, 'ok', /1 MiB.*next start/],
  ['a large write-ahead log', { walBytes: gib }, 'warning', /1024 MiB/],
  ['none', { state: 'missing' }, 'skipped', /no log\.db yet/],
  ['one of others', { state: 'denied' }, 'skipped', /root/],
  ['another file', { state: 'no database', detail: 'x' }, 'failed', /no SQLite database/],
  ['a damaged one', { state: 'damaged', detail: 'malformed' }, 'failed', /malformed.*backup/],
  ['a locked one', { state: 'busy' }, 'warning', /locked/],
]);

const memory = { totalBytes: gib, availableBytes: gib / 2 };
const host: HostFacts = { ...wellHost, temperatureCelsius: 50, memory };
judged('the machine', judgeMachine, host, [
  ['a cool one', {}, 'ok', /50 °C, 512 MiB of memory available, supply good/],
  ['heat', { temperatureCelsius: 85 }, 'warning', /85 degrees/],
  ['too little voltage', { underVoltage: 'yes' }, 'failed', /voltage.*power supply/],
  ['little memory', { memory: { totalBytes: gib, availableBytes: 1 } }, 'warning', /memory/],
  ['a worn card', { disk: { ...host.disk, lifeUsedPercent: 100 } }, 'failed', /new card/],
  ['a machine that reports nothing', { temperatureCelsius: null, underVoltage: 'unknown' }, 'ok', /unknown/],
]);

const slot = { name: 'a', trying: false, dataLost: false, updateFailed: false };
const slotFile = '# lineside slot good=a try=- left=0\nos_prefix=a/\n';
judged('the slots', judgeSlots, { running: slot, slotFile }, [
  ['a good slot', {}, 'ok', /slot a, known to be good/],
  ['another machine', { running: null, slotFile: '' }, 'skipped', /no appliance/],
  ['a slot on trial', { running: { ...slot, trying: true } }, 'warning', /on trial/],
  ['an update that failed', { running: { ...slot, updateFailed: true } }, 'warning', /slot a runs again/],
  ['data in memory alone', { running: { ...slot, dataLost: true } }, 'failed', /data partition/],
  ['a damaged slot.txt', { slotFile: 'garbage' }, 'failed', /damaged/],
]);
