/** setup.toml as text: taking secrets out, the example, and what single values may be. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { parse, stringify } from 'smol-toml';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { networkFiles, storedPsk, wpaFile } from './network-files.ts';
import { addressFault, gatewayFault, judgeSetup, sshKeyFault } from './setup-file.ts';
import { setupExample, setupKeys, tokenKeys, withoutSecrets } from './setup-keys.ts';
import { wirelessKey } from './setup-plan.ts';

test('whatever a file holds, its secrets and nothing else leave it, and its length stays', () => {
  const word = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 30 })
    .filter((text) => !text.includes('\uFFFD') && text !== '*' && text.isWellFormed());
  const name = fc.stringMatching(/^[a-z.]{1,8}$/);
  const document = fc.record({
    other: word,
    network: fc.record({ dns: fc.array(word), wifi: fc.record({ ssid: word, psk: word }) }),
    token: fc.array(fc.record({ name: word, token: word, roles: fc.array(word) }), { maxLength: 3 }),
    secrets: fc.dictionary(name, word, { maxKeys: 3, noNullPrototype: true }),
  });
  const property = fc.property(document, fc.boolean(), fc.boolean(), (value, crlf, mark) => {
    const plain = stringify(value);
    const text = `${mark ? '\uFEFF' : ''}${crlf ? plain.replaceAll('\n', '\r\n') : plain}`;
    const taken = withoutSecrets(text) ?? '';
    assert.equal(Buffer.byteLength(taken), Buffer.byteLength(text));
    const expected = structuredClone(value);
    expected.network.wifi.psk = '*';
    for (const token of expected.token) token.token = '*';
    for (const key of Object.keys(expected.secrets)) expected.secrets[key] = '*';
    assert.deepEqual(parse(taken.replace('\uFEFF', '')), parse(stringify(expected)));
    assert.equal(withoutSecrets(taken), undefined, 'there is nothing left to take');
  });
  fc.assert(property, { numRuns: 300 });
});

test('secrets in inline tables, dotted keys and several lines leave, comments and layout stay', () => {
  const text = `network = { wifi = { ssid = "s", psk = "12345678" } } # kept\nsecrets.kafka.password = '''\nlong\nlonger'''\n`;
  const taken = withoutSecrets(text) ?? '';
  assert.match(
    taken,
    /^network = \{ wifi = \{ ssid = "s", psk = "\*" {7} \} \} # kept\nsecrets\.kafka\.password = "\*" *(# moved.*)?\n$/,
  );
  assert.equal(withoutSecrets('[network.wifi]\npsk = "*"\n[secrets]\na = ""\n'), undefined);
});

test('the example sets nothing, and every line of it that is uncommented is a key that exists', () => {
  const example = setupExample();
  assert.deepEqual(judgeSetup(parse(example)).faults, []);
  assert.equal(withoutSecrets(example), undefined);
  const opened = parse(example.replaceAll(/^#(?=\[|\w+(\.\w+)* = )/gm, ''));
  const unknown = judgeSetup(opened).faults.filter(({ message }) => /no such|is a section|is a list/.test(message));
  assert.deepEqual(unknown, []);
  for (const { key } of [...setupKeys, ...tokenKeys]) {
    assert.ok(example.includes(`# ${key.schema.description}\n#${key.path.split('.').at(-1)} = `), key.path);
  }
  assert.ok(example.split('\n').every((line) => line.length <= 120));
});

test('addresses that would make the box unreachable are refused', () => {
  for (const good of ['192.168.10.20/24', '10.0.0.0/31', '10.1.2.3/32', 'fd00::7/64'])
    assert.equal(addressFault(good), undefined, good);
  for (const bad of [
    '',
    '192.168.10.20',
    '192.168.10.0/24',
    '192.168.10.255/24',
    '192.168.10.020/24',
    '10.0.0.1/33',
    '10.0.0.1/0',
    'fd00::7/129',
    'x/24',
    '::ffff:1.2.3.4/96',
    '10.0.0.1/24\n[Route]',
  ]) {
    assert.notEqual(addressFault(bad), undefined, bad);
  }
  assert.equal(gatewayFault('192.168.10.1', '192.168.10.20/24'), undefined);
  assert.equal(gatewayFault('fe80::1', 'fd00::7/64'), undefined);
  for (const bad of ['192.168.11.1', '192.168.10.20', 'fe80::1', 'router', '']) {
    assert.notEqual(gatewayFault(bad, '192.168.10.20/24'), undefined, bad);
  }
});

test('a public key is distinguished from everything else', () => {
  const blob = (kind: string): string => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(kind.length);
    return Buffer.concat([length, Buffer.from(kind), Buffer.alloc(40, 1)]).toString('base64');
  };
  for (const kind of ['ssh-ed25519', 'ssh-rsa', 'ecdsa-sha2-nistp256']) {
    assert.equal(sshKeyFault(`${kind} ${blob(kind)} a comment`), undefined);
  }
  const good = `ssh-ed25519 ${blob('ssh-ed25519')}`;
  for (const bad of [
    '',
    'ssh-ed25519',
    `ssh-rsa ${blob('ssh-ed25519')}`,
    good.slice(0, -7),
    `command="x" ${good}`,
    `${good}\n${good}`,
    `ssh-dss ${blob('ssh-dss')}`,
  ]) {
    assert.notEqual(sshKeyFault(bad), undefined, bad);
  }
});

test('wpa_supplicant reads a name and a key, whatever they are made of', (t) => {
  // The vector of IEEE 802.11, J.4.3.
  const vector = 'f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e';
  assert.equal(wirelessKey('password', 'IEEE'), vector);
  assert.equal(wirelessKey(vector.toUpperCase(), 'any'), vector);
  const hostile = 'x"\n}\nnetwork={\nssid="evil"é';
  const wifi = { ssid: hostile, psk: wirelessKey('a"b#c }\\" d', hostile), country: 'DE' };
  const file = wpaFile(wifi);
  assert.equal(storedPsk(file, hostile), wifi.psk);
  assert.equal(storedPsk(file, 'another'), undefined);
  assert.equal(storedPsk(wpaFile({ ...wifi, psk: '' }), hostile), undefined);
  const dir = temporaryDirectory(t);
  for (const [psk, management] of [
    [wifi.psk, 'key_mgmt: 0x2'],
    ['', 'key_mgmt: 0x4'],
  ] as const) {
    writeFileSync(join(dir, 'wpa.conf'), wpaFile({ ...wifi, psk }).replace('/run/wpa_supplicant', dir));
    // It exits because the interface is missing, after it has read the file.
    const args = ['-c', join(dir, 'wpa.conf'), '-i', 'none-such0', '-D', 'wired', '-dd'];
    const said = spawnSync('/usr/sbin/wpa_supplicant', args, { encoding: 'utf8', timeout: 10_000 }).stdout;
    assert.equal(said.match(/start of a new network block/g)?.length, 1, said);
    assert.ok(
      said.includes(`ssid - hexdump_ascii(len=${Buffer.byteLength(hostile)})`) && said.includes(management),
      said,
    );
    assert.doesNotMatch(said, /Invalid|failed to parse/);
  }
});

test('plain DHCP is left to the image, everything else is a profile of its own', () => {
  const plain = { method: 'dhcp', address: '', gateway: '', dns: [], wifi: undefined } as const;
  assert.deepEqual(networkFiles(plain), { wired: undefined, wireless: undefined });
  assert.match(networkFiles({ ...plain, dns: ['9.9.9.9'] }).wired ?? '', /\nDNS=9\.9\.9\.9\nDHCP=yes\n/);
  const fixed = networkFiles({ ...plain, method: 'static', address: '10.0.0.5/24', gateway: '10.0.0.1' }).wired ?? '';
  assert.match(fixed, /Name=en\* eth\* usb\*\n[\s\S]*Address=10\.0\.0\.5\/24\n\n\[Route\]\nGateway=10\.0\.0\.1\n$/);
});
