import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isLocalName, maxUrlCharacters, parseUrl } from './endpoint.ts';

describe('a URL', () => {
  for (const [text, hostname, port] of [
    ['https://hooks.example/in', 'hooks.example', 443],
    ['HTTPS://Hooks.Example', 'hooks.example', 443],
    ['https://hooks.example:443/', 'hooks.example', 443],
    ['https://hooks.example:8443/a?b=c#d', 'hooks.example', 8443],
    ['https://hooks.example./', 'hooks.example.', 443],
    ['https://b\u00FCro.example/', 'xn--bro-hoa.example', 443],
    ['https://a_b.example/', 'a_b.example', 443],
    ['https://8.8.8.8/', '8.8.8.8', 443],
    ['https://[2600::1]:9443/', '2600::1', 9443],
    // The host is what stands before the first of / ? #: this one does lead to hooks.example.
    ['https://hooks.example#@127.0.0.1/', 'hooks.example', 443],
    ['https://hooks.example?@127.0.0.1/', 'hooks.example', 443],
    ['https://hooks.example/@127.0.0.1/', 'hooks.example', 443],
  ] as const) {
    it(`leads from ${text} to ${hostname} at ${port}`, () => {
      const { faults, endpoint } = parseUrl(text);
      assert.deepEqual(faults, []);
      assert.equal(endpoint?.hostname, hostname);
      assert.equal(endpoint?.port, port);
    });
  }

  for (const [text, ...expected] of [
    ['', /cannot be parsed/],
    ['hooks.example/in', /cannot be parsed/],
    ['//hooks.example/in', /cannot be parsed/],
    ['https://', /cannot be parsed/],
    ['https://hooks.example:65536/', /cannot be parsed/],
    ['https://[fe80::1%25eth0]/', /cannot be parsed/],
    ['https://[fe80::1%eth0]/', /cannot be parsed/],
    ['https://fe80::1%eth0/', /cannot be parsed/],
    ['https://1.2.3.256/', /cannot be parsed/],
    ['http://hooks.example/', /must begin with https:\/\/$/],
    ['ftp://hooks.example/', /must begin with https:\/\/$/],
    ['file:///etc/passwd', /must begin with https:\/\/$/],
    ['javascript:alert(1)', /must begin with https:\/\/$/],
    ['https:hooks.example/', /host right after it/],
    ['https:/hooks.example/', /host right after it/],
    ['https:///hooks.example/', /host right after it/],
    ['https://user@hooks.example/', /user name or password/],
    ['https://user:word@hooks.example/', /user name or password/],
    ['https://:word@hooks.example/', /user name or password/],
    ['https://@hooks.example/', /user name or password/],
    ['https://:@hooks.example/', /user name or password/],
    ['https://hooks.example@127.0.0.1/', /user name or password/],
    ['https://hooks.example\\@127.0.0.1/', /backslash/],
    ['https:\\\\hooks.example/', /backslash/, /host right after it/],
    ['https://hooks.example/a\\b', /backslash/],
    ['https://127.0.\t0.1/', /invisible characters/],
    ['ht\ntps://hooks.example/', /invisible characters/, /host right after it/],
    ['https://hooks.example/\r\nHost: x', /invisible characters/],
    [' https://hooks.example/', /invisible characters/, /host right after it/],
    ['https://hooks.example/ ', /invisible characters/],
    ['https://hooks.example/\u0000', /invisible characters/],
    ['https://hooks.example/\u0085', /invisible characters/],
    ['https://hooks.ex\u00ADample/', /invisible characters/],
    ['https://hooks.exam\u200Bple/', /invisible characters/],
    ['https://hooks.example/\uFEFF', /invisible characters/],
    ['https://hooks.example/\u202Etxt', /invisible characters/],
    ['https://hooks.example/\uD800', /invisible characters/],
    ['https://hooks.example:0/', /port 0/],
    ['https://127.0.0.1../', /"127\.0\.0\.1\.\." is not a host name/],
    ['https://hooks..example/', /not a host name/],
    ['https://./', /not a host name/],
    ['https://*.example/', /not a host name/],
    ['https://hooks.example,evil.example/', /not a host name/],
    [`https://${'a'.repeat(64)}.example/`, /not a host name/],
    [`https://${'a.'.repeat(127)}example/`, /not a host name/],
  ] as const) {
    it(`${JSON.stringify(text).slice(0, 60)} is refused: ${expected.join()}`, () => {
      const { faults } = parseUrl(text);
      assert.equal(faults.length, expected.length, faults.join('; '));
      expected.forEach((pattern, index) => assert.match(faults[index] ?? '', pattern));
    });
  }

  it('is refused with every fault of its form at once', () => {
    const { faults } = parseUrl(' https:\\\\user@hooks.example:0/');
    assert.equal(faults.length, 5, faults.join('; '));
    const long = parseUrl(`http://user@10.0.0.1:22/${'a'.repeat(maxUrlCharacters)}`);
    const expected = [
      'is longer than 2048 characters',
      'must begin with https://',
      'must not hold a user name or password',
    ];
    assert.deepEqual(
      long.faults,
      expected.map((end) => `the URL ${end}`),
    );
    assert.deepEqual([long.endpoint?.hostname, long.endpoint?.port], ['10.0.0.1', 22], 'they are checked as well');
  });

  it('has at most 2048 characters, by code points', () => {
    const head = 'https://hooks.example/';
    const fits = head + 'a'.repeat(maxUrlCharacters - head.length);
    assert.deepEqual(parseUrl(fits).faults, []);
    assert.deepEqual(parseUrl(head + '\u{1F600}'.repeat(maxUrlCharacters - head.length)).faults, []);
    for (const text of [`${fits}a`, `${head}${'\u{1F600}'.repeat(maxUrlCharacters)}`, head + 'a'.repeat(1_000_000)]) {
      assert.deepEqual(parseUrl(text).faults, ['the URL is longer than 2048 characters']);
    }
  });
});

describe('a name', () => {
  for (const name of [
    ...'localhost localhost. localhost.. LOCALHOST a.localhost a.b.localhost. printer.local'.split(' '),
    ...'metadata.google.internal localhost.localdomain nas.lan box.home.arpa home.arpa local'.split(' '),
    ...'intranet intranet. ip6-localhost com'.split(' '),
  ]) {
    it(`${name} is local`, () => assert.equal(isLocalName(name), true));
  }
  for (const name of 'hooks.example localhost.example mylocalhost.example notlocal.org internal.example'.split(' ')) {
    it(`${name} is not local`, () => assert.equal(isLocalName(name), false));
  }

  // The parser folds look-alikes before the name is checked. A Cyrillic o makes another name, and still one without a dot.
  for (const host of [
    ...'LOCALHOST localhost. x.localhost loc%61lhost localho\u017Ft printer\u3002local l\u043Ecalhost'.split(' '),
    '\u24DB\u24DE\u24D2\u24D0\u24DB\u24D7\u24DE\u24E2\u24E3',
    '\uFF4C\uFF4F\uFF43\uFF41\uFF4C\uFF48\uFF4F\uFF53\uFF54',
    'loc\u00ADalhost',
  ]) {
    it(`of https://${host}/ is seen to be local`, () =>
      assert.equal(parseUrl(`https://${host}/`).endpoint?.local, true));
  }
});
