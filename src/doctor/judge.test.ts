/** The findings of the checks of the service and its ports: of the good state, and of every bad one. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkLines, checkSummary, oneLine } from '../cli/output/box-reports.ts';
import { Redactor } from '../shared/base/redactor.ts';
import { orFine } from './check.ts';
import type { Tokens } from './check-context.ts';
import { judgeConfiguration, judgeTokens, shownFault } from './checks/configuration.ts';
import { type ConsoleFacts, judgeConsole, judgeUart, type PortFacts, type UartFacts } from './checks/machine.ts';
import { judgeRights, type RightsFact } from './checks/permissions.ts';
import { judgeService, type ServiceFacts } from './checks/service.ts';
import { judged } from './table.fixture.ts';

const settings = new Map([['log.max_bytes', { value: 1, source: 'file' as const }]]);
const configFile = { file: '/etc/lineside/lineside.toml', kind: 'read', trouble: '', faults: [], settings } as const;
judged('the configuration', judgeConfiguration, configFile, [
  ['a sound file', {}, 'ok', /1 keys set, no fault/],
  ['no file at all', { kind: 'defaults' }, 'ok', /defaults/],
  ['one that this user may not read', { kind: 'denied' }, 'skipped', /as root/],
  ['a FIFO', { kind: 'odd', trouble: 'it is a FIFO' }, 'failed', /a FIFO/],
  ['no TOML', { kind: 'unparsable', trouble: 'line 3' }, 'failed', /line 3/],
  [
    'an unknown key',
    { faults: [{ path: 'log.max', message: 'no such key; did you mean log.max_bytes?' }] },
    'failed',
    /log\.max no such key; did you mean log\.max_bytes/,
  ],
]);

it('quotes nothing back that was typed where a file name belongs', () => {
  const said = shownFault({
    path: 'kafka.password_file',
    message: 'must be an absolute path or "credential:NAME", not "hun"ter2"',
  });
  assert.equal(said, 'kafka.password_file must be an absolute path or a credential');
});

const token = { name: 'a', roles: ['viewer', 'admin'], sha256: '0'.repeat(64), createdAt: '' } as const;
const tokens = { kind: 'read', what: '', tokens: [token, token] } as const;
const judgeAll = (given: Tokens & { isExposed: boolean }) => judgeTokens(given, given.isExposed);
judged('the tokens', judgeAll, { ...tokens, isExposed: true }, [
  ['two tokens', {}, 'ok', /2 stored \(2 viewer, 2 admin\)/],
  ['none on a box that no client reaches', { tokens: [], isExposed: false }, 'ok', /no token/],
  ['none on the network', { tokens: [] }, 'warning', /token add/],
  ['a damaged file', { kind: 'damaged', what: 'it is no JSON' }, 'failed', /no JSON/],
  ['a directory', { kind: 'odd', what: 'a directory' }, 'failed', /a directory/],
  ['a file that is not for this user', { kind: 'denied' }, 'skipped', /as root/],
]);

it('says how many tokens there are also behind the redactor', () => {
  const [said] = judgeTokens(tokens, true);
  assert.equal(new Redactor().text(said?.found ?? ''), '2 stored (2 viewer, 2 admin)');
});

const answered = { kind: 'answered', version: '1.0', detail: '' } as const;
const units = { 'lineside.service': 'active', 'lineside-hub.service': 'active' } as const;
const service: ServiceFacts = { units, line: answered, hub: answered, version: '1.0' };
judged('the service', judgeService, service, [
  ['one that answers', {}, 'ok', /the hub answers, version 1\.0/],
  ['one without systemd', { units: undefined }, 'ok', /the line answers/],
  [
    'a unit that does not run',
    { units: { ...units, 'lineside-hub.service': 'inactive' }, hub: { kind: 'absent' } },
    'failed',
    /lineside-hub\.service does not run.*systemctl status/,
  ],
  ['a socket without a process', { line: { kind: 'refused' } }, 'failed', /the line does not run/],
  ['a line that is silent', { line: { kind: 'late' } }, 'failed', /does not answer within/],
  ['a hub that fails', { hub: { kind: 'failed', detail: 'status 500' } }, 'failed', /500/],
  ['a lost port', { line: { ...answered, detail: 'unplugged' } }, 'warning', /unplugged/],
  ['a user who may not ask', { hub: { kind: 'denied' } }, 'ok', /the hub: its socket is not/],
  ['two versions', { hub: { ...answered, version: '0.9' } }, 'warning', /hub 0\.9.*restart/],
  ['an installed one that is newer', { version: '1.1' }, 'warning', /installed 1\.1/],
]);

const cat = { pid: 77, name: 'cat', isLineside: false, uid: 0 };
const noHolders = { holders: [], unseen: 0 };
const port: PortFacts = { name: '/dev/ttyUSB0', isWanted: true, holders: noHolders, openable: true };
/** The port with another holder. */
const held = (other: Partial<typeof cat> = {}, isWanted = true) => ({
  ports: [{ ...port, isWanted, holders: { holders: [{ ...cat, ...other }], unseen: 0 } }],
});
const uart: UartFacts = { ports: [port], wanted: port.name, wantedIs: 'listed', simulate: false };
judged('the UART', judgeUart, uart, [
  ['a port that is there', {}, 'ok', /one port: \/dev\/ttyUSB0/],
  ['lineside as its holder', held({ isLineside: true }), 'ok', /open in lineside \(process 77\)/],
  ['another program on it', held(), 'failed', /held open by cat \(process 77\)/],
  ['another program on another port', held({}, false), 'warning', /cat/],
  ['processes that cannot be seen', { ports: [{ ...port, holders: { holders: [], unseen: 3 } }] }, 'ok', /3 processes/],
  ['a user without the right', { ports: [{ ...port, openable: false }] }, 'ok', /dialout/],
  ['no port', { ports: [], wanted: '', wantedIs: 'none' }, 'warning', /no serial port/],
  ['the simulated line alone', { ports: [], wanted: '', wantedIs: 'none', simulate: true }, 'ok', /simulated/],
  ['a port that is gone', { wanted: '/dev/x', wantedIs: 'missing' }, 'failed', /not there/],
  ['a path that is no port', { wanted: '/dev/x', wantedIs: 'unlisted' }, 'failed', /extra_ports/],
]);

const quiet: ConsoleFacts = {
  cmdline: 'console=tty0 quiet',
  consoles: 'tty0 -WU (EC)',
  gettys: ['tty1'],
  firmware: '',
  links: {},
  ports: ['ttyAMA0', 'ttyUSB0'],
  wanted: 'ttyAMA0',
};
const firmware = 'enable_uart=1\n#dtoverlay=disable-bt\n';
judged('the console', judgeConsole, quiet, [
  ['a quiet line', {}, 'ok', /no console/],
  ['console=ttyAMA0', { cmdline: 'root=x console=ttyAMA0,115200' }, 'failed', /console on ttyAMA0.*cmdline\.txt/],
  ['console=serial0', { cmdline: 'console=serial0,115200', links: { serial0: 'ttyAMA0' } }, 'failed', /ttyAMA0/],
  ['a console that was made later', { consoles: 'ttyAMA0 -W- (EC p)' }, 'failed', /ttyAMA0/],
  ['a console on another port', { cmdline: 'console=ttyUSB0' }, 'warning', /ttyUSB0/],
  ['a console on what is no port', { cmdline: 'console=ttyS0' }, 'ok', /no console/],
  ['a login', { gettys: ['ttyAMA0'] }, 'failed', /systemctl disable --now serial-getty@ttyAMA0/],
  ['the mini-UART', { firmware }, 'warning', /disable-bt/],
  ['the good UART', { firmware: `${firmware}dtoverlay=disable-bt\n` }, 'ok', /no console/],
  ['no UART', { ports: ['ttyUSB0'], firmware: 'arm_64bit=1' }, 'skipped', /enable_uart=1/],
]);

const user = { uid: 900, gids: [900, 20] };
const right: RightsFact = {
  what: 'it',
  is: 'there',
  kind: 'a file',
  mode: 0o640,
  uid: 0,
  gid: 900,
  rule: 'secret',
  user,
};
const judgePermissions = (fact: RightsFact) => orFine(judgeRights(fact), 'nothing is wrong');
judged('the permissions', judgePermissions, right, [
  ['a secret of the group', {}, 'ok', /^/],
  ['a secret that all may read', { mode: 0o644 }, 'warning', /0644.*chmod o-rwx/],
  ['a secret that all may write', { mode: 0o666 }, 'failed', /changed by everybody/],
  ['a secret that its group may write', { mode: 0o660 }, 'warning', /by its group/],
  ['a secret that the service may not read', { mode: 0o600 }, 'failed', /user 900.*may not read/],
  ['a missing file', { is: 'missing' }, 'failed', /missing/],
  ['a file that cannot be seen', { is: 'unseen' }, 'skipped', /root/],
  ['a FIFO', { is: 'odd', kind: 'a FIFO' }, 'failed', /a FIFO/],
  ['a directory of another user', { rule: 'directory', mode: 0o755 }, 'failed', /write in/],
  ['a port of another group', { rule: 'port', gid: 5, mode: 0o660 }, 'failed', /dialout/],
  ['a port of dialout', { rule: 'port', gid: 20, mode: 0o660 }, 'ok', /^/],
]);

describe('the output', () => {
  it('says a check’s name once, and what to do below what was found', () => {
    const findings = [
      { state: 'ok', found: 'a', todo: '' },
      { state: 'failed', found: 'b', todo: 'c' },
    ] as const;
    assert.equal(
      checkLines({ title: 'disk', findings }, 6),
      `ok       disk  a\nfailed         b\n${' '.repeat(15)}-> c\n`,
    );
    const checked = { title: 'disk', state: 'failed' } as const;
    assert.equal(
      checkSummary([checked, { title: 'UART', state: 'warning' }]),
      '\n2 checks; failed: disk; warnings: UART\n',
    );
  });

  it('lets no name move the cursor', () => assert.equal(oneLine('a\u001b[2J\nb'), 'a [2J b'));
});
