/**
 * One card's life on emulated hardware, from the first boot as a technician makes it to an update that fails: one box and
 * one order of things, since each start takes a minute.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { newToken } from '../../src/shared/auth/tokens.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type {
  AdminWork,
  Configuration,
  ConfigurationChange,
  UpdateBundle,
  UpdateState,
} from '../../src/shared/gen/http.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { openPort, RX } from '../e2e/faults.ts';
import { chosenSeed, seeded } from '../soak/random.ts';
import { tryAdapterInputs, tryAdapterSession } from './adapter-session.ts';
import { QemuBox } from './box.ts';
import { writeNextBundle, writeStick } from './bundles.ts';
import { imageMissing, putOnCard, readFromCard, writeCard } from './card.ts';
import { CardRecording, DICTIONARY, Load, pullPlugs } from './pulled-plug.ts';
import { authorityOf, grpcClient, HttpClient } from './remote.ts';
import { tryFramings, tryReset, trySession } from './uart-session.ts';
import type { UsbAdapter } from './usb-adapter.ts';

const UART = '/dev/ttyAMA0';
/** PULLS: more of them, for a campaign. */
const PULLS = Number(process.env['PULLS'] ?? 2);
/** Small, so that it is quickly looked through; its data partition is a quarter of it. */
const CARD_MIB = 2048;
/** One of this many flushes of a recorded life is checked. */
const LOOK_EVERY = 20;
const IDLE_S = 30;
/** Some 190 MB are read three times and written once. */
const INSTALL_LIMIT_MS = 600_000;
const WHO = 'cat /etc/machine-id /etc/hostname; sha256sum </etc/lineside/tls/server.crt';
/** In the configuration: as the image has it, as it is changed over HTTP, as somebody edits it on the card. */
const [CARD_COMMIT, CHANGED_COMMIT, EDITED_COMMIT] = ['#commit_ms = 1000\n', 'commit_ms = 750\n', 'commit_ms = 850\n'];
const PING = Buffer.from('PING\r\n');
/** Under emulation things take their time. */
const PATIENCE_MS = 120_000;
const { PORT_STATE_OPEN, PORT_STATE_LOST, PORT_STATE_REOPENING } = lineside.v1.PortState;

const say = (line: string): void => void process.stderr.write(`${line}\n`);

describe('the appliance on emulated hardware', { skip: imageMissing() }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-appliance-'));
  const token = newToken();
  let next: string;
  let box: QemuBox;
  let authority = '';
  let client: Client;
  let http: HttpClient;
  let adapter: UsbAdapter;

  const connect = (): void => {
    client = grpcClient(box, authority, token);
    http = new HttpClient(box, authority, token);
  };
  /** Options of a command on the laptop. */
  const connection = (): string[] => {
    const [ca, secret] = [join(dir, 'ca.pem'), join(dir, 'token')];
    writeFileSync(ca, authority);
    writeFileSync(secret, token, { mode: 0o600 });
    const there = ['--host', `127.0.0.1:${box.ports.grpc}`, '--server-name', 'localhost'];
    return [...there, '--ca', ca, '--token-file', secret];
  };
  /** Power on, until the box answers. */
  const powerOn = async (extra: readonly string[] = []): Promise<number> => {
    const from = performance.now();
    await box.start(extra);
    await box.ready();
    return (performance.now() - from) / 1000;
  };

  before(async () => {
    next = writeNextBundle(dir);
    const card = join(dir, 'card.img');
    box = await QemuBox.create({ dir, card, extra: writeStick(dir) });
    const roles = '["operator", "admin", "writer", "reader", "refdata-internal"]';
    writeCard(
      card,
      {
        'setup.toml': [
          '[box]\nhostname = "pump-house-3"',
          `[ssh]\nkeys = ["${box.publicKey}"]`,
          `[[token]]\nname = "laptop"\nroles = ${roles}\ntoken = "${token}"`,
          '[secrets]\n"kafka.password" = "a-word-that-nobody-may-read"\n',
        ].join('\n'),
      },
      CARD_MIB * 1024 * 1024,
    );
    say(`first boot to ready: ${(await powerOn()).toFixed(0)} s`);
    authority = await box.ssh('cat /etc/lineside/tls/ca.crt');
    connect();
  });
  after(async () => {
    client?.close();
    http?.close();
    await box.kill();
    rmSync(dir, { recursive: true, force: true });
  });

  it('runs as the card says, and nothing has failed', async () => {
    const seen = await box.until(
      'a running system',
      'systemctl is-active lineside lineside-hub && hostname && systemctl --failed --no-legend --plain',
    );
    assert.deepEqual(seen.split('\n'), ['active', 'active', 'pump-house-3']);
    assert.match(await box.ssh('cat /run/lineside-boot'), /^DATA=ok$/m);
    say(await box.startTimes());
  });

  it('has taken the secrets off the card, and shows the fingerprint there for who holds it', async () => {
    const onCard = await box.ssh('cat /boot/firmware/setup.toml');
    assert.ok(!onCard.includes(token), 'the token is still on the card');
    assert.ok(!onCard.includes('a-word-that-nobody-may-read'), 'the password is still on the card');
    const fingerprint = await box.ssh('openssl x509 -in /etc/lineside/tls/ca.crt -noout -fingerprint -sha256');
    const claim = await box.ssh('cat /boot/firmware/claim.txt');
    assert.ok(claim.includes(fingerprint.split('=')[1] ?? 'none'), claim);
    const shown = await box.until('the page of the screen', 'cat /run/lineside-console/issue');
    // In two lines, so that it can be read aloud.
    assert.ok(shown.replaceAll(/\s/g, '').includes(fingerprint.split('=')[1] ?? 'none'), shown);
  });

  it('has a root file system that is read-only, and data grown to the end of the card', async () => {
    const { status, stdout } = await box.trySsh('findmnt -no FSTYPE,OPTIONS /; touch /usr/x /etc/x');
    assert.notEqual(status, 0);
    assert.match(stdout, /^erofs +ro,/);
    assert.equal(await box.ssh('findmnt -no OPTIONS /boot/firmware | grep -o "^r."'), 'ro');
    assert.ok(Number(await box.ssh('df --output=size -BM /data | tail -1 | tr -dc 0-9')) > CARD_MIB / 5);
  });

  it('listens on nothing but its own ports and SSH', async () => {
    const listening = await box.ssh("ss -Hltn | awk '{ print $4 }' | sort -u");
    const open = listening.split('\n').filter((one) => !/^(127\.|\[::1\])/.test(one));
    const numbers = new Set(open.map((one) => Number(one.split(':').at(-1))));
    assert.deepEqual(numbers, new Set([22, 8443, 50_051]));
    assert.match(await box.ssh('nft list ruleset'), /policy drop/);
  });

  it('has no password for any user, and only the owners can read its secrets', async () => {
    const withPassword = await box.ssh("awk -F: '$2 !~ /^[!*]/ { print $1 }' /etc/shadow");
    assert.equal(withPassword, '');
    const loose =
      'find /etc/lineside/ca /etc/lineside/secrets -type f -perm /077; find /var/lib/lineside* -maxdepth 0 -perm /077';
    assert.equal(await box.ssh(loose), '');
    assert.match(await box.ssh('stat -c "%U:%G %a" /etc/lineside/tokens.json'), /^root:lineside 640$/);
  });

  it('keeps the service in its place: no capability, no shadow file, no other device, no network for the line', async () => {
    for (const unit of ['lineside', 'lineside-hub']) {
      const pid = await box.ssh(`systemctl show -P MainPID ${unit}`);
      const status = await box.ssh(`grep -E '^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/${pid}/status`);
      const values = Object.fromEntries(status.split('\n').map((line) => line.split(/:\s+/) as [string, string]));
      for (const set of ['CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.equal(Number(`0x${values[set]}`), 0, `${unit}: ${set}`);
      assert.equal(values['NoNewPrivs'], '1');
      assert.equal(values['Seccomp'], '2');
      // In the process's own namespaces and control group, as its user.
      const inside = async (command: string): Promise<string> => {
        const joined = `echo $$ > /sys/fs/cgroup$(cut -d: -f3 /proc/${pid}/cgroup)/cgroup.procs`;
        const user = unit === 'lineside' ? 'lineside' : 'lineside-hub';
        const { stdout, stderr } = await box.trySsh(
          `${joined}; nsenter -t ${pid} -m -n setpriv --reuid ${user} --regid ${user} --clear-groups --inh-caps=-all --no-new-privs sh -c '${command}' 2>&1`,
        );
        return stdout + stderr;
      };
      assert.match(await inside('cat /etc/shadow'), /Permission denied/, unit);
      assert.match(await inside('echo x > /usr/x; echo x > /etc/x'), /Read-only file system/, unit);
    }
    const pid = await box.ssh('systemctl show -P MainPID lineside');
    const links = await box.ssh(`nsenter -t ${pid} -n ip -o link`);
    assert.equal(links.split('\n').length, 1, links);
    assert.match(links, /^1: lo:/);
    const devices = await box.ssh(
      'cd /sys/fs/cgroup$(systemctl show -P ControlGroup lineside) && sh -c "echo \\$\\$ > cgroup.procs && for d in kmsg mem vda hwrng; do head -c 1 /dev/\\$d 2>&1; done; true"',
    );
    assert.equal(devices.split('\n').filter((line) => /not permitted|No such file/.test(line)).length, 4, devices);
  });

  it('has left the field line alone so far', () => {
    assert.deepEqual(box.uartReceived(), Buffer.alloc(0));
  });

  it('owns the UART: what is sent is on the wire, what comes is in the log', async () => {
    const { devices } = await client.serial.listDevices({});
    assert.ok(
      devices?.some(({ portName }) => portName === UART),
      JSON.stringify(devices),
    );
    await openPort(client, UART);
    const { status } = await client.serial.sendPacket({ payload: PING });
    assert.equal(status, serial.StatusCode.OK);
    await until('the packet on the wire', () => box.uartReceived().length >= PING.length, PATIENCE_MS);
    assert.deepEqual(box.uartReceived(), PING);
    box.uartSend(Buffer.from('PONG\r\n'));
    await until('the answer in the log', async () => (await received(client)).includes('PONG\r\n'), PATIENCE_MS);
  });

  it('takes every framing that a PL011 has, and reads it back', async () => {
    await box.watchUart(true);
    await tryFramings(client, box, UART);
  });

  it('has the modem lines and counters of the driver', async () => {
    const lines = await client.line.setModemLines({ dtr: true, rts: true });
    assert.equal(lines.dtr, true);
    const { kernel } = await client.line.getStatus({});
    assert.ok(kernel != null && kernel.tx >= 6, JSON.stringify(kernel));
  });

  it('does to the UART what a Session asks for, in that order; a line that XOFF holds, holds nobody', async () => {
    await trySession(client, box);
  });

  it('resets the device for a bootloader that sets DTR and RTS over rfc2217', async () => {
    await tryReset(box, connection());
    await box.watchUart(false);
  });

  it('has the errors and the modem inputs of an adapter in a Session, and over rfc2217', async () => {
    adapter = await box.plugUsb();
    const usb = async (): Promise<string | undefined> =>
      (await client.serial.listDevices({})).devices?.find(({ portName }) => portName?.startsWith('/dev/ttyUSB'))
        ?.portName ?? undefined;
    await openPort(client, await until('the adapter is listed', usb, PATIENCE_MS), { baudRate: 9600 });
    await tryAdapterSession(client, adapter);
    await tryAdapterInputs(adapter, connection());
  });

  it('loses an adapter that is pulled out, and resumes with it when it is back', async () => {
    await exchange(client, adapter, 'first');
    adapter.pull();
    await until(
      'the loss',
      async () => [PORT_STATE_LOST, PORT_STATE_REOPENING].includes(await portState(client)),
      PATIENCE_MS,
    );
    const refused = await client.serial.sendPacket({ payload: Buffer.from('x') });
    assert.equal(refused.status, serial.StatusCode.NOT_CONNECTED);
    adapter = await box.plugUsb();
    await until('the adapter is open again', async () => (await portState(client)) === PORT_STATE_OPEN, PATIENCE_MS);
    await exchange(client, adapter, 'second');
    adapter.pull();
    await openPort(client, UART);
  });

  it('says how it is: telemetry, clock, slot', async () => {
    const host = await http.expect<{ slot?: unknown }>(200, 'GET', '/admin/host');
    say(`host: ${JSON.stringify(host).slice(0, 600)}`);
    const { clock, residentBytes } = await client.line.getStatus({});
    assert.notEqual(clock, 0);
    const rss = await box.ssh(
      'for u in lineside lineside-hub; do grep VmRSS /proc/$(systemctl show -P MainPID $u)/status; done; free -m | sed -n 2p',
    );
    say(`resident: line ${Number(residentBytes)} bytes; ${rss.replaceAll(/\s+/g, ' ')}`);
  });

  it('writes little when idle', async () => {
    const written = async (): Promise<number> =>
      512 * Number(await box.ssh("sync; awk '{ print $7 }' /sys/block/vda/stat"));
    const first = await written();
    await sleep(IDLE_S * 1000);
    const bytes = (await written()) - first;
    say(
      `idle: ${bytes} bytes written in ${IDLE_S} s, ${((bytes * 3600) / IDLE_S / 1e6).toFixed(1)} MB an hour at that rate`,
    );
    assert.ok(bytes < 4_000_000);
  });

  it(`keeps every promise when the plug is pulled under load, ${PULLS} times`, async () => {
    const seed = chosenSeed();
    say(`pulled plugs: SEED=${seed}`);
    const random = seeded(seed);
    const load = new Load(random);
    const who = await box.ssh(WHO);
    await load.begin(client, http, UART);
    const recording = new CardRecording(box, join(dir, 'states'));
    const boots = await pullPlugs(box, load, PULLS, {
      connection: () => ({ client, http }),
      lifeMs: () => random.between(3_000, 12_000),
      pulled(pull) {
        if (pull < PULLS) return;
        const states = recording.look(LOOK_EVERY, () => random.between(0, 999) / 1000);
        say(`the card after each ${LOOK_EVERY}th flush: ${JSON.stringify(states)}`);
        assert.ok(states.looked > 0 && states.torn > 0, 'no state was checked');
      },
      // Its last life is recorded write by write, the start after a pulled plug with it.
      async powerOn(pull) {
        const seconds = await powerOn(pull === PULLS - 1 ? recording.begin() : []);
        connect();
        return seconds;
      },
    });
    assert.equal(await box.ssh(WHO), who, 'the box is another one');
    say(`boot to ready: ${boots.map((s) => s.toFixed(0)).join(', ')} s`);
    say(`pulled plugs: ${JSON.stringify(load.ledger.figures)}, ${load.records} records`);
    assert.ok(load.ledger.figures.logRaw > PULLS && load.records > PULLS, 'there was no load');
  });

  const slots = (): string => readFromCard(box.card, 'slot.txt').toString('latin1');

  it('takes no update that is not signed for it', async () => {
    const { status, stderr } = await box.trySsh(
      'mkdir -p /run/stick; mount -o ro /dev/vdb /run/stick; lineside update install /run/stick/foreign.update; r=$?; umount /run/stick; exit $r',
    );
    assert.notEqual(status, 0);
    assert.match(stderr, /sign/i);
    assert.match(slots(), /good=a try=- left=0\nos_prefix=a\/\n/);
  });

  it('takes a change of its configuration over HTTP, in place of what the card had', async () => {
    // The first request starts the helper, which takes a laden emulator longer than the hub waits.
    await until('the helper', async () => (await http.send('GET', '/admin/configuration')).status === 200, PATIENCE_MS);
    const { hash, text } = await http.expect<Configuration>(200, 'GET', '/admin/configuration');
    const changed = { hash, text: text.replace(CARD_COMMIT, CHANGED_COMMIT) };
    const { isReloaded, live } = await http.expect<ConfigurationChange>(200, 'PUT', '/admin/configuration', changed);
    assert.deepEqual([isReloaded, live], [true, ['log.commit_ms']]);
  });

  it('takes an update over HTTP: uploaded, checked, and installed into the other slot by a unit of its own', async () => {
    const from = performance.now();
    const seconds = (): string => ((performance.now() - from) / 1000).toFixed(0);
    await http.expect(204, 'POST', '/admin/uploads', { bytes: statSync(next).size });
    const { sha256, version, slot } = await http.upload<UpdateBundle>('/admin/update/bundle', next);
    assert.deepEqual([version, slot], ['9.9.1', 'b']);
    const uploaded = seconds();
    assert.match(slots(), /good=a try=- left=0\nos_prefix=a\/\n/);
    await http.expect(204, 'POST', '/admin/update/install', { sha256 });
    const work = async () => (await http.expect<AdminWork>(200, 'GET', '/admin/work')).update;
    // Nothing is known of it until the unit has begun.
    await until(
      'the end of the install',
      async () => !['running', undefined].includes((await work())?.state),
      INSTALL_LIMIT_MS,
    );
    const update = await work();
    assert.deepEqual([update?.state, update?.result, update?.error], ['done', '9.9.1', '']);
    say(`update over HTTP: uploaded and checked after ${uploaded} s, installed after ${seconds()} s`);
    assert.match(slots(), /good=a try=b left=3\nos_prefix=b\/\n/);
    await box.until(
      'the end of the unit, which removes the bundle',
      '[ "$(ls /var/lib/lineside-admin)" = audit.jsonl ]',
    );
    assert.equal(await box.ssh('findmnt -no OPTIONS /boot/firmware | grep -o "^r."'), 'ro');
  });

  it('starts the update when it is asked to, finds it healthy and keeps it, with all data', async () => {
    await http.expect(204, 'POST', '/admin/update/try');
    client.close();
    http.close();
    assert.equal(await box.ended(), 'reset');
    say(`update: boot to ready in the new slot: ${(await powerOn()).toFixed(0)} s`);
    await box.until('the new slot is kept', "grep -q 'good=b try=-' /boot/firmware/slot.txt");
    connect();
    const { running, trying, good } = await http.expect<UpdateState>(200, 'GET', '/admin/update');
    assert.deepEqual([running, trying, good], ['b', null, 'b']);
    await http.expect(200, 'GET', `/dictionaries/${DICTIONARY}`);
    await until('the port is open again', async () => (await portState(client)) === PORT_STATE_OPEN, PATIENCE_MS);
    // The card's own file has not changed.
    const { text } = await http.expect<Configuration>(200, 'GET', '/admin/configuration');
    assert.ok(text.includes(CHANGED_COMMIT), text);
  });

  it('gives an update that cannot start its tries, and rolls back automatically', async () => {
    await box.ssh('mkdir -p /run/stick && mount -o ro /dev/vdb /run/stick', INSTALL_LIMIT_MS);
    await box.ssh('lineside update install /run/stick/broken.update && umount /run/stick', INSTALL_LIMIT_MS);
    client.close();
    http.close();
    const { stderr } = await box.trySsh('systemctl reboot');
    assert.doesNotMatch(stderr, /[Ff]ail/);
    assert.equal(await box.ended(), 'reset');
    for (const left of [3, 2, 1, 0]) {
      assert.match(slots(), new RegExp(`good=b try=a left=${left}\nos_prefix=a/`));
      await box.start();
      assert.equal(await box.ended(), 'reset');
    }
    assert.match(slots(), /good=b try=- left=0\nos_prefix=b\/\n#failed=a/);
    const onCard = readFromCard(box.card, 'lineside.toml').toString();
    assert.ok(onCard.includes(CARD_COMMIT), 'the change of the box is on the card');
    putOnCard(box.card, 'lineside.toml', onCard.replace(CARD_COMMIT, EDITED_COMMIT));
    say(`rollback: boot to ready in the good slot: ${(await powerOn()).toFixed(0)} s`);
    connect();
    await http.expect(200, 'GET', `/dictionaries/${DICTIONARY}`);
    assert.match(await box.ssh('cat /run/lineside-boot'), /^SLOT=b$[\s\S]*^FAILED=a$/m);
    // A card that was edited overrides what the box had.
    const { text } = await http.expect<Configuration>(200, 'GET', '/admin/configuration');
    assert.ok(text.includes(EDITED_COMMIT), text);
  });

  it('is a new box after a factory reset, with the claim token on its card', async () => {
    await box.trySsh('lineside factory-reset --yes');
    assert.equal(await box.ended(), 'reset');
    client.close();
    http.close();
    say(`factory reset: boot to ready: ${(await powerOn()).toFixed(0)} s`);
    const shown = await authorityOf(box);
    assert.notEqual(shown, authority, 'it has the identity it had');
    authority = shown;
    const claim = readFromCard(box.card, 'claim.txt').toString();
    const fresh = /^Token: +(lsd_\S+)$/m.exec(claim)?.[1] ?? '';
    http = new HttpClient(box, authority, fresh);
    client = grpcClient(box, authority, fresh);
    assert.equal((await http.send('GET', `/dictionaries/${DICTIONARY}`)).status, 404);
    assert.equal(Number((await client.line.getStatus({})).log?.lastId), 0);
    // It still runs the slot that it ran, and asks for the secrets that it no longer has.
    assert.match(slots(), /good=b try=- left=0\nos_prefix=b\//);
    assert.match(readFromCard(box.card, 'setup-errors.txt').toString(), /kafka\.password: was moved onto a box/);
  });

  it('has put nothing on the field line in all these starts but what callers sent', async () => {
    await box.kill();
    const sent = box.uartReceived().subarray(PING.length).toString('latin1');
    // Records of a caller's, some of them cut by a pulled plug; firmware, kernel or a shell would say something else.
    assert.match(sent, /^[T.0-9a-f\n]*$/);
    assert.ok(sent.length > 0);
  });
});

async function portState(client: Client): Promise<number> {
  return (await client.line.getStatus({})).portState;
}

/** Everything received that the log holds. */
async function received(client: Client): Promise<string> {
  let text = '';
  for await (const { entries } of client.line.readLog({ dirs: [RX] }))
    for (const { entry } of entries) text += Buffer.from(entry?.rawData ?? []).toString('latin1');
  return text;
}

async function exchange(client: Client, adapter: UsbAdapter, word: string): Promise<void> {
  const { status } = await client.serial.sendPacket({ payload: Buffer.from(`to-${word}`) });
  assert.equal(status, serial.StatusCode.OK);
  const sent = () => adapter.acts.some(({ what }) => what === `"to-${word}"`);
  await until('the packet at the adapter', sent, PATIENCE_MS);
  adapter.receive(Buffer.from(`from-${word}\n`));
  await until('the answer in the log', async () => (await received(client)).includes(`from-${word}`), PATIENCE_MS);
}
