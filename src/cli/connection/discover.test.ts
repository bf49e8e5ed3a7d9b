import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { Boxes, type LooseRecord } from './discover.ts';

const service = '_lineside._tcp.local';
const fingerprint = 'ab'.repeat(32);

function collected(...records: LooseRecord[]): Boxes {
  const boxes = new Boxes();
  boxes.add(records, '192.0.2.1');
  return boxes;
}
const ptr = (name: string): LooseRecord => ({ type: 'PTR', name: service, ttl: 120, data: `${name}.${service}` });
const srv = (name: string, port: unknown = 50_051, target: unknown = `${name}.local`): LooseRecord => {
  return { type: 'SRV', name: `${name}.${service}`, ttl: 120, data: { priority: 0, weight: 0, port, target } };
};
const txt = (name: string, ...strings: string[]): LooseRecord => {
  return { type: 'TXT', name: `${name}.${service}`, ttl: 120, data: strings.map((text) => Buffer.from(text)) };
};
const a = (host: string, data: unknown, type = 'A'): LooseRecord => ({ type, name: host, ttl: 120, data });
const box = (name: string): LooseRecord[] => [ptr(name), srv(name), a(`${name}.local`, '192.0.2.7')];

test('a box is its records, in whatever order they come, of whatever case', () => {
  const facts = txt('gate.7', 'http=8443', 'id=gate-7', 'version=0.1.0', `FP=${fingerprint}`, 'id=second');
  const boxes = collected(
    a('GATE.7.local', '192.0.2.7'),
    a('gate.7.local', '2001:db8::7', 'AAAA'),
    facts,
    srv('gate.7'),
  );
  assert.deepEqual(boxes.found(), [
    {
      name: 'gate.7',
      host: 'gate.7.local',
      addresses: ['192.0.2.7', '2001:db8::7'],
      grpcPort: 50_051,
      httpPort: 8_443,
      deviceId: 'gate-7',
      version: '0.1.0',
      fingerprint: Array(32).fill('AB').join(':'),
    },
  ]);
});

test('impossible values in the announcement of a box are omitted', () => {
  const facts = txt('x', 'http=0', 'id=a b', 'version=\u001b[2J', 'fp=123', '=', 'http', 'id=later');
  const [found] = collected(...box('x'), facts).found();
  assert.deepEqual([found?.httpPort, found?.deviceId, found?.version, found?.fingerprint], [null, null, null, null]);
  for (const port of [0, 65_536, -1, 1.5, '50051', null]) {
    assert.deepEqual(collected(ptr('x'), srv('x', port), a('x.local', '192.0.2.7')).found(), [], String(port));
  }
});

test('other services, goodbyes and names that are too long are no boxes', () => {
  const long = 'é'.repeat(32);
  const boxes = collected(
    { type: 'PTR', name: '_ipp._tcp.local', ttl: 120, data: `printer._ipp._tcp.local` },
    { ...srv('gone'), ttl: 0 },
    srv(long),
    { type: 'SRV', name: service, ttl: 120, data: { port: 1, target: 'x.local' } },
    a('x.local', '192.0.2.7'),
    a('gone.local', '192.0.2.8'),
    a(`${long}.local`, '192.0.2.9'),
  );
  assert.deepEqual(boxes.found(), []);
  assert.deepEqual(boxes.questions(), []);
});

test('missing records are requested, a bounded number at a time', () => {
  const boxes = collected(ptr('a'), ptr('b'), srv('b'), txt('b', 'id=b'));
  assert.deepEqual(boxes.questions(), [
    { name: `a.${service}`, type: 'SRV' },
    { name: `a.${service}`, type: 'TXT' },
    { name: 'b.local', type: 'A' },
  ]);
  boxes.add(
    Array.from({ length: 60 }, (_, i) => ptr(`box-${i}`)),
    '192.0.2.2',
  );
  assert.equal(boxes.questions().length, 32);
});

test('thousands of names and addresses are kept in bounds, and one source leaves room for others', () => {
  const boxes = collected(...box('first'));
  const source = (i: number): string => `198.51.100.${i % 3}`;
  for (let i = 0; i < 5_000; i += 1) {
    boxes.add([...box(`box-${i}`), a('first.local', `192.0.${i >> 8}.${i & 255}`)], source(i));
  }
  assert.equal(boxes.found().length, 1 + 3 * 64);
  boxes.add(box('late'), '192.0.2.2');
  const found = boxes.found();
  assert.ok(found.some(({ name }) => name === 'late'));
  assert.equal(found.find(({ name }) => name === 'first')?.addresses.length, 8);
  for (let i = 0; i < 5_000; i += 1) boxes.add(box(`more-${i}`), `198.51.${i >> 8}.${i & 255}`);
  assert.equal(boxes.found().length, 256);
});

test('nothing that a decoder can give breaks it', () => {
  const loose = fc.record({
    type: fc.oneof(fc.constantFrom('PTR', 'SRV', 'TXT', 'A', 'AAAA'), fc.anything()),
    name: fc.oneof(fc.constantFrom(service, `x.${service}`, `.${service}`, 'x.local'), fc.anything()),
    data: fc.oneof(
      fc.constant(`x.${service}`),
      fc.record({ port: fc.anything(), target: fc.anything() }),
      fc.anything(),
    ),
    ttl: fc.anything(),
  });
  fc.assert(
    fc.property(fc.array(loose, { maxLength: 20 }), (records) => {
      const boxes = collected(...records);
      for (const found of boxes.found()) assert.ok(found.addresses.every((address) => isIP(address) !== 0));
      assert.ok(boxes.questions().length <= 32);
    }),
  );
});
