/** What of a configuration's text is hidden, and how it comes back. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { hideSecrets, revealed } from './hidden-text.ts';

const example = readFileSync(join(import.meta.dirname, '../../../systemd/lineside.toml'), 'utf8');

test('of the example, with every key commented out or in, nothing is hidden', () => {
  for (const text of [example, example.replaceAll(/^#(\w+ = )/gm, '$1'), example.replaceAll('\n', '\r\n')])
    assert.deepEqual(hideSecrets(text), { text, parts: [] });
});

/** What is hidden of a text; the others stay as they are. */
const rows: readonly (readonly [text: string, ...hidden: string[]])[] = [
  ['[kafka]\npassword = "hunter2" # of the broker', '"hunter2"'],
  ['[kafka]\npassword_file = "hunter2"', '"hunter2"'],
  ['[kafka]\npassword_file = "/etc/lineside/secrets/hub/kafka"\nusername = "line"'],
  ['[kafka]\n#password_file = "hunter2"', '"hunter2"'],
  ['[tls]\nkey_file = "credential:tls.key"'],
  ['kafka.password_file = "hunter2"\nkafka . "password_file" = \'hunter3\'', '"hunter2"', "'hunter3'"],
  ['kafka = { password_file = "hunter2", partitions = 3 }', '{ password_file = "hunter2", partitions = 3 }'],
  ['kafka = { password_file = "/a", partitions = 3 }'],
  ['[kafka]\nbootstrp = "a:9092"\npartitions = "many"'],
  ['[other]\nname = "x"\nport = 9092\npin = 1234', '"x"', '1234'],
  ['[broken\npartitions = 3', '[broken', '3'],
  ['hunter2\nhunter3 # x', 'hunter2', 'hunter3 # x'],
  ['[log] hunter2 # x\ncommit_ms = 20 hunter2', 'hunter2 # x'],
  ['[webhooks]\nallow_cidrs = [ # the site\n  "10.0.0.0/8",\n]\npartitions = 3'],
  ['[kafka]\nsecret = """one\ntwo = 3\n"""\npartitions = 3', '"""one\ntwo = 3\n"""'],
  ['[kafka]\nbootstrap = """one\n[log]\ncommit_ms = 20', '"""one\n[log]\ncommit_ms = 20'],
  ['# the password of the broker: hunter2\n# pump hall, north side', 'the password of the broker: hunter2'],
  ['#kafka.sasl_pass = "hunter2"\n# lsd_abcdefgh', '"hunter2"', 'lsd_abcdefgh'],
  [
    '# a\n-----BEGIN PRIVATE KEY-----\nMIIE\n# x\n-----END PRIVATE KEY-----\n[log]',
    '-----BEGIN PRIVATE KEY-----\nMIIE\n# x\n-----END PRIVATE KEY-----',
  ],
];

for (const [text, ...hidden] of rows) {
  test(`hidden: ${JSON.stringify(hidden)} of ${JSON.stringify(text)}`, () => {
    const { text: shown, parts } = hideSecrets(text);
    assert.deepEqual(parts, hidden);
    assert.equal(
      shown,
      hidden.reduce((left, part, at) => left.replace(part, `<hidden ${at + 1}>`), text),
    );
    assert.equal(revealed(shown, parts), text);
  });
}

test('what was changed around a hidden part does not matter; the part itself is kept or replaced', () => {
  const { text, parts } = hideSecrets('[kafka]\npassword = "hunter2"\npartitions = 3\n');
  assert.equal(text, '[kafka]\npassword = <hidden 1>\npartitions = 3\n');
  const edited = (change: (text: string) => string): string => revealed(change(text), parts);
  assert.equal(
    edited((one) => `# new\n${one.replace('3', '4')}`),
    '# new\n[kafka]\npassword = "hunter2"\npartitions = 4\n',
  );
  assert.equal(
    edited((one) => one.replace('<hidden 1>', '"other"')),
    '[kafka]\npassword = "other"\npartitions = 3\n',
  );
  for (const [from, to, fault] of [
    ['password', 'username', /line 2: <hidden 1>: a hidden part keeps its place/],
    ['<hidden 1>', '<hidden 2>', /line 2: <hidden 2>: the file has no such hidden part/],
    ['partitions = 3', 'topic_prefix = <hidden 1>', /line 3: <hidden 1>: a hidden part keeps/],
  ] as const)
    assert.throws(() => edited((one) => one.replace(from, to)), fault);
});

/** Pieces of TOML, whole and broken. */
const pieces = fc.constantFrom(
  '[kafka]',
  '[tls',
  'password',
  'bootstrap',
  'cert_file',
  ' = ',
  '"',
  "'",
  '"""',
  "'''",
  '#',
  '\n',
  '\r\n',
  '{',
  '}',
  '[',
  ']',
  ',',
  'hunter2',
  '3',
  'true',
  '\\',
  '.',
  '<hidden 1>',
  '<hidden 22>',
  '-----BEGIN PRIVATE KEY-----',
  '-----END PRIVATE KEY-----',
  'ü',
  '\uFEFF',
);

test('whatever the text is, it comes back as it was', () => {
  const texts = fc.oneof(
    fc.array(pieces, { maxLength: 40 }).map((some) => some.join('')),
    fc.string(),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const { text: shown, parts } = hideSecrets(text);
      assert.equal(revealed(shown, parts), text);
    }),
    { numRuns: 3_000 },
  );
});

test('a secret that was typed at a place where one may be expected is not shown', () => {
  const secret = 'Zq7!xV9pL2w';
  const at = fc.constantFrom(
    (s: string) => `password = "${s}"`,
    (s: string) => `kafka.password_file = '${s}'`,
    (s: string) => `#token: ${s}`,
    (s: string) => `x = [ "${s}", ]`,
    (s: string) => `x = { y = "${s}" }`,
    (s: string) => `x = """\n${s}\n"""`,
    (s: string) => s,
    (s: string) => `[${s}`,
  );
  const around = fc.constantFrom('[kafka]', '# a', 'partitions = 3', '', '[nothing]', 'bootstrap = "a:1"');
  fc.assert(
    fc.property(fc.array(around, { maxLength: 5 }), at, fc.array(around, { maxLength: 5 }), (before, line, after) => {
      const { text } = hideSecrets([...before, line(secret), ...after].join('\n'));
      assert.ok(!text.includes(secret), text);
    }),
    { numRuns: 500 },
  );
});
