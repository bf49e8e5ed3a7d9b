/** Whatever the syntax, a planted secret does not survive; what is no secret does. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { stringify } from 'smol-toml';
import { newToken } from '../auth/tokens.ts';
import { isSecretName, REMOVED, Redactor, shownFile } from './redactor.ts';

const redactor = new Redactor();

const names = fc.constantFrom(
  ...`password PASSWORD kafka.password sasl_password saslPassword secret clientSecret client-secret token access_token
  accessToken LINESIDE_TOKEN api_key apiKey x-api-key private_key privateKey authorization Authorization
  Proxy-Authorization X-Service-Signature sasl.jaas.config passphrase wpa_psk cookie credential`.split(/\s+/),
);

/** Any characters of one line; long enough that finding it is no chance. */
const secrets = fc
  .string({ unit: 'grapheme-ascii', minLength: 8, maxLength: 60 })
  .map((text) => text.replaceAll(/[^\x20-\x7e]/g, 'x'))
  .filter((text) => text.trim().length >= 8);
/** Without what would end it in that syntax. */
const words = fc.stringMatching(/^[A-Za-z0-9!$%^*()_+~.?/-]{8,40}$/);

type Syntax = (name: string, secret: string) => string;

const quoted: Readonly<Record<string, Syntax>> = {
  JSON: (name, secret) => JSON.stringify({ before: 1, [name]: secret, after: 'kept' }),
  'JSON, laid out': (name, secret) =>
    JSON.stringify({ a: { [name]: secret, b: [{ [name]: [secret, secret] }] } }, null, 2),
  'JSON in JSON': (name, secret) => JSON.stringify({ message: JSON.stringify({ [name]: secret }) }),
  TOML: (name, secret) => stringify({ section: { [name]: secret } }),
  'TOML, literal': (name, secret) => `${name} = '${secret.replaceAll("'", '')}'\nnext = 1\n`,
  'TOML, three quotes': (name, secret) => `${name} = """\n${secret.replaceAll(/["\\]/g, '')}"""\nnext = 1\n`,
  'a shell': (name, secret) => `export ${name.replaceAll(/[.-]/g, '_')}='${secret.replaceAll("'", `'\\''`)}'\n`,
  "Node's inspect": (name, secret) => `{ '${name}': ${JSON.stringify(secret)} }`,
  'a log of this house': (name, secret) => `info connected host=a ${name}=${JSON.stringify(secret)} more=1`,
  'a truncated quote': (name, secret) => `${name}: ${JSON.stringify(secret).slice(0, -1)}`,
};
const bare: Readonly<Record<string, Syntax>> = {
  'an INI file': (name, secret) => `[a]\n${name}=${secret}\nnext=1\n`,
  'an INI file with blanks': (name, secret) => `${name} = ${secret}\n`,
  YAML: (name, secret) => `a:\n  ${name}: ${secret}\n  next: 1\n`,
  'YAML, a block': (name, secret) => `a:\n  ${name}: |\n    first\n    ${secret}\n  next: 1\n`,
  'YAML, below': (name, secret) => `a:\n  ${name}:\n    - ${secret}\n`,
  'a header': (name, secret) => `> ${name}: ${secret}\r\n> Accept: */*\r\n`,
  'Ruby and Perl': (name, secret) => `:${name} => ${secret}`,
  XML: (name, secret) => `<a><${name}>${secret.replaceAll(/[<>]/g, '')}</${name}></a>`,
  'several words': (name, secret) => `${name}: correct horse ${secret} staple`,
  'a line that continues': (name, secret) => `${name}=first\\\n${secret}\nnext=1`,
};
const options: Readonly<Record<string, Syntax>> = {
  'an option of a command': (name, secret) => `run --${name} ${secret} --verbose`,
  'an option with =': (name, secret) => `run --${name}=${secret} --verbose`,
  'a query': (name, secret) => `GET /x?a=1&${name}=${secret}&b=2 HTTP/1.1`,
};

describe('the redactor', () => {
  for (const [what, write] of Object.entries({ ...quoted, ...bare })) {
    it(`leaves nothing of a secret in ${what}`, () => {
      fc.assert(
        fc.property(names, secrets, (name, given) => {
          // Where nothing is quoted, a quote at the beginning would be one.
          const secret = what in bare ? given.replace(/^[\s"'`]+/, 'x').trim() : given;
          const out = redactor.text(write(name, secret));
          for (const form of [secret, JSON.stringify(secret).slice(1, -1)]) {
            const bits = form.length > 12 ? [form.slice(0, 10), form.slice(-10), form] : [form];
            for (const bit of bits.filter((one) => one.trim().length >= 8))
              assert.ok(!out.includes(bit), `${JSON.stringify(bit)} is in ${JSON.stringify(out)}`);
          }
          assert.ok(out.includes(REMOVED));
        }),
        // Found once: a shell's quote that ends behind a backslash.
        { numRuns: 300, examples: [['password', "'\\';        !"]] },
      );
    });
  }
  for (const [what, write] of Object.entries(options)) {
    it(`leaves nothing of a secret in ${what}`, () => {
      fc.assert(
        fc.property(names, words, (name, secret) => {
          assert.ok(!redactor.text(write(name, secret)).includes(secret));
        }),
      );
    });
  }

  const key = randomBytes(120)
    .toString('base64')
    .replaceAll(/(.{64})/g, '$1\n');
  const pem = `-----BEGIN EC PRIVATE KEY-----\n${key}\n-----END EC PRIVATE KEY-----`;
  const token = newToken();
  const hash = createHash('sha256').update(token).digest('hex');
  const looks: readonly (readonly [string, string, string])[] = [
    ['a token of lineside alone', `caller used ${token}, refused`, token],
    ['a token where a file belongs', `cannot read '${token}'`, token],
    ['the hash of a token', `{"sha256": "${hash}", "name": "me"}`, hash],
    ['a hash alone', `seen ${hash} today`, hash],
    ['a Bearer header', `curl -H 'Authorization: Bearer abc.DEF-123'`, 'abc.DEF-123'],
    ['Bearer without its header', 'sent Bearer abcDEF123456 to it', 'abcDEF123456'],
    ['Basic', 'header "Basic dXNlcjpwYXNzd29yZA=="', 'dXNlcjpwYXNzd29yZA'],
    ['user and password of a URL', 'to https://user:p@ss/w0rd@broker.example:9093/x', 'w0rd'],
    ['user of a URL', 'to amqp://hunter2secret@broker.example', 'hunter2secret'],
    ['a private key', `key:\n${pem}\nnext`, key.slice(10, 40)],
    ['a private key in one line', JSON.stringify({ a: pem }), key.slice(70, 100)],
    ['a truncated private key', pem.slice(0, 150), key.slice(10, 40)],
    [
      'a private key in a journal',
      pem
        .split('\n')
        .map((line) => `2026-11-22T13:00:00+0000 box lineside[12]: ${line}`)
        .join('\n'),
      key.slice(70, 100),
    ],
    ["SCRAM's first message", 'n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL', 'fyko+d2lbbFgONRv9qkxdawL'],
    ["SCRAM's proof", 'c=biws,r=fyko3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=', 'v0X8v3Bz2T0CJGbJQyF0X+HI4Ts='],
    ['SASL PLAIN', 'sent \0user\0hunter2secret\nok', 'hunter2secret'],
    ['JAAS', 'sasl.jaas.config=a.ScramLoginModule required username="u" password="hunter2secret";', 'hunter2secret'],
    ['a signature', 'X-Service-Signature: sha256=00ff00ff00ff00ff', '00ff00ff00ff00ff'],
    ['a web token', 'got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl from it', 'eyJzdWIiOiIxIn0'],
    ['a word in quotes behind its name', `the password "hunter2secret" was refused`, 'hunter2secret'],
    ['a list of headers', `["authorization","hunter2secret","accept","*/*"]`, 'hunter2secret'],
    ['a list', `tokens = ["hunter2secret", "b"]\nnext`, 'hunter2secret'],
    ['a name with a blank behind it', 'set api_key hunter2secret next', 'hunter2secret'],
    ['letters behind such a name', 'set api_key correcthorsebattery next', 'correcthorsebattery'],
    ['letters behind an option of a command', 'mysqladmin -u root password correcthorse', 'correcthorse'],
    ['letters behind a prompt', '$ vault login password correcthorse', 'correcthorse'],
    ['letters that are set', 'config set password correcthorse', 'correcthorse'],
    ['a name with a tab behind it', 'password\thunter2secret', 'hunter2secret'],
    ['a short option of a command', 'mysql -u x -p hunter2secret db', 'hunter2secret'],
    ['a short option with its value attached', 'mysql -u x -phunter2secret db', 'hunter2secret'],
    ['a short option with letters attached', 'mysql -u x -pcorrecthorse db', 'correcthorse'],
    ['a query that is encoded', 'next=%2Fa%3Ftoken%3Dhunter2secret%26b%3D1', 'hunter2secret'],
    ['a query that is encoded, in lower case', 'next=%2fa%26key%3dhunter2secret', 'hunter2secret'],
    ['an attribute of XML', '<a><token value="hunter2secret"/></a>', 'hunter2secret'],
    ['a property of XML', '<property name="password" value="hunter2secret"/>', 'hunter2secret'],
    ['a property of XML, value first', '<property value="hunter2secret" name="password"/>', 'hunter2secret'],
    ['a variable of YAML, value first', 'env:\n  - value: hunter2 secret\n    name: TOKEN\n', 'hunter2 secret'],
    ['a variable of JSON, value first', '{"value":"hunter2secret","name":"DB_PASSWORD"}', 'hunter2secret'],
    ['a variable of YAML', 'env:\n  - name: TOKEN\n    value: hunter2secret\n', 'hunter2secret'],
    ['a variable of JSON', '{\n "name": "DB_PASSWORD",\n "value": "hunter2secret"\n}', 'hunter2secret'],
    ["Slack's webhook", 'POST https://hooks.slack.com/services/T01/B01/hunter2secret', 'hunter2secret'],
    ["GitHub's token", 'remote ghp_hunter2secretABCDEF0123456789abcdef now', 'hunter2secret'],
    ["GitLab's token", 'remote glpat-hunterABCDsecret_4711-x now', 'glpat-hunter'],
    ["Slack's token", 'with xoxb-12345-hunter2secret now', 'hunter2secret'],
    ["AWS's access key", 'id AKIAIOSFODNN7EXAMPLE now', 'AKIAIOSFODNN7EXAMPLE'],
    ["AWS's secret key", 'with wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY now', 'wJalrXUtnFEMI/K7MDENG'],
    ['a file name that is none', `kafka.password_file = "hunter2-Secret!"`, 'hunter2-Secret!'],
  ];
  for (const [what, text, secret] of looks) {
    it(`takes out ${what}`, () => {
      assert.ok(text.includes(secret) || what.includes('journal') || what.includes('one line'));
      assert.ok(!redactor.text(text).includes(secret), redactor.text(text));
    });
  }

  it('takes out what is known wherever it stands, and in the forms it is written in', () => {
    fc.assert(
      fc.property(secrets, fc.string(), fc.string(), (secret, before, after) => {
        const known = new Redactor([secret]);
        const plain = secret.trim();
        const hex = Buffer.from(plain).toString('hex');
        const percent = hex.replaceAll(/../g, '%$&');
        const forms = [plain, JSON.stringify(plain).slice(1, -1), encodeURIComponent(plain), btoa(plain)];
        forms.push(hex, hex.toUpperCase(), percent, percent.toUpperCase());
        for (const form of forms) {
          const out = known.text(`${before}${form}${after}`);
          assert.ok(!out.includes(form) || `${before}${after}`.includes(form), out);
        }
      }),
    );
  });

  it('takes values below a secret name out of JSON, and leaves the rest a value', () => {
    const value = {
      a: 1,
      list: [{ password: 'x', token: { deep: 'y' } }],
      note: `Bearer ${token}`,
      key_file: '/etc/a.pem',
    };
    assert.deepEqual(redactor.json(value), {
      a: 1,
      list: [{ password: REMOVED, token: REMOVED }],
      note: `Bearer ${REMOVED}`,
      key_file: '/etc/a.pem',
    });
  });

  const kept = [
    'info hub ready listen="127.0.0.1:8080 unix:/run/lineside/http.sock" version=0.1.0',
    'lineside_outbox_waiting{scope="PUBLIC"} 12',
    'kafka.password_file = "/etc/lineside/secrets/hub/kafka-password"  (from file)',
    'tls.key_file = "credential:tls.key"  (from file)',
    'grpc.keepalive_s = 30  (from default)',
    'the file of tls.key_file is a FIFO',
    'no answer from sasl_ssl://127.0.0.1:9093/bootstrap',
    'usb 1-1: FTDI USB Serial Device converter now attached to ttyUSB0',
    'topic refdata.cuod.events.public: 3 partitions',
    'monkey=1 keyboard=2 author=3',
    'no key for it, a token for the hub, password from a file',
    'ssh -p 22 box; mkdir -p /srv/log',
    'lineside_tokens_rejected_total 12',
    'tar -pxzf a.tar; cc -pedantic -pthread; find . -path /srv -print',
    'the value: 12, name: pump; value="a" name="title"',
    'env:\n  - name: A\n    value: shown\n  - name: B',
    'serve --config x: no token for it, password from a file, key of the box',
    'commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12',
  ];
  for (const text of kept) it(`leaves "${text.slice(0, 40)}" as it is`, () => assert.equal(redactor.text(text), text));

  it('knows secret names from others', () => {
    for (const name of ['key', 'saltedPassword', 'API_KEY', 'x-auth-token', 'wifi.psk', 'sha256', 'tokens'])
      assert.ok(isSecretName(name), name);
    for (const name of ['keyboard', 'keepalive_s', 'monkey', 'author', 'compass', 'topic', 'fingerprint'])
      assert.ok(!isSecretName(name), name);
  });

  it('shows the name of a file, and nothing that was typed in its place', () => {
    for (const file of ['', '/etc/lineside/tls/server.key', 'credential:kafka-password', '/a'])
      assert.equal(shownFile(file), file);
    for (const file of [token, `/${token}`, 'hunter2', '/Hunter2!x', `/etc/${hash}`, 'p w'])
      assert.equal(shownFile(file), REMOVED);
  });

  for (const part of [
    '-----BEGIN PRIVATE KEY-----',
    'BEGIN PRIVATE KEY ',
    'a://',
    'x',
    '=',
    'key',
    'r=',
    'password ',
    'password:\n ',
    'password="\\',
    'token: [',
    'name: TOKEN\n',
    'value=x name=',
    'value: ',
    '-p',
    '$ password abcdef ',
    'set token ',
    'is was ',
    'x>x>',
    'lsd_',
    'eyJaaaaaaaa.',
    '%3D',
    ' \t',
    '\0a',
  ]) {
    it(`works in proportion to its input: ${JSON.stringify(part)} again and again`, () => {
      const [small, large] = [costOf(part, 1_000, 128), costOf(part, 64_000, 2)];
      // The same bytes: 64 times the work if it grows with the square of the length.
      assert.ok(
        large < small * 4 + noiseMs,
        `${small.toFixed(1)} ms of CPU in small pieces, ${large.toFixed(1)} in large ones`,
      );
    });
  }
});

/** Of the processor's clock: its ticks, and a collection of garbage. */
const noiseMs = 40;

/** The least of three, of processor time: other processes do not count. */
function costOf(part: string, length: number, times: number): number {
  const text = part.repeat(Math.floor(length / part.length));
  const runs = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    for (let n = 0; n < times; n++) redactor.text(text);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.min(...runs);
}
