import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { type CardsOptions, makeCards, writeCards } from './cards.ts';

const setup = `# of the site
[box]
hostname = "@name@"
[network]
method = "static"
address = "@address@"
[[token]]
name = "ops"
roles = ["admin", "operator"]
hash = "@token_hash@"
[secrets]
"kafka.password" = "@password@"
`;
const lineside = '[serial.line]\nport = "/dev/ttyAMA0"\nbaud_rate = @baud@\n';
const list =
  'name;address;password;baud\npress-04;192.168.10.24/24;"a;b""c\\";9600\npress-05;192.168.10.25/24;x;115200\n';
const templates = { 'setup.toml': setup, 'lineside.toml': lineside };
const faultsOf = (text: string, of = templates): readonly string[] => makeCards(text, of).faults;

describe('the files of many cards', () => {
  it('are made of the templates, with a token for each box, and its hash alone on the card', (t) => {
    const dir = temporaryDirectory(t);
    const put = (name: string, text: string): string => {
      writeFileSync(join(dir, name), text);
      return join(dir, name);
    };
    const options: CardsOptions = {
      from: put('boxes.csv', list),
      setup: put('s', setup),
      lineside: put('l', lineside),
      output: join(dir, 'cards'),
    };
    assert.deepEqual(writeCards(options), ['press-04', 'press-05']);
    const of = (box: string, file: string): string => readFileSync(join(dir, 'cards', box, file), 'utf8');
    const token = of('press-04', 'token.txt').trim();
    const made = of('press-04', 'setup.toml');
    assert.match(made, /^# of the site\n\[box\]\nhostname = "press-04"\n/);
    assert.match(made, /"kafka.password" = "a;b\\"c\\\\"/);
    assert.ok(made.includes(createHash('sha256').update(token).digest('hex')) && !made.includes(token));
    assert.notEqual(of('press-05', 'token.txt').trim(), token);
    assert.match(of('press-05', 'lineside.toml'), /baud_rate = 115200/);
    assert.equal(statSync(join(dir, 'cards/press-04/token.txt')).mode & 0o777, 0o600);
    // A second run would make other tokens.
    assert.throws(
      () => writeCards({ ...options, from: put('more.csv', `${list}press-06;192.168.10.26/24;x;9600\n`) }),
      /has press-04, press-05 already/,
    );
    assert.deepEqual(readdirSync(join(dir, 'cards')), ['press-04', 'press-05']);
    mkdirSync(join(dir, 'other'));
    assert.throws(() => writeCards({ ...options, from: join(dir, 'missing') }), /cannot read .*ENOENT/);
  });

  it('are not made where the list or what comes of it has a fault; all are named', () => {
    const row = 'press-04;192.168.10.24/24;x;9600\n';
    const head = 'name;address;password;baud\n';
    assert.deepEqual(faultsOf(head), ['the list has no box']);
    assert.deepEqual(faultsOf(`${head}${row}${row}`), ['line 3 (press-04): name: the list has it twice']);
    assert.deepEqual(faultsOf(`${head}press-04;192.168.10.24/24;x\n`).slice(0, 1), [
      'line 2 (press-04): 3 cells instead of 4',
    ]);
    assert.match(faultsOf(`${head}../etc;192.168.10.24/24;x;9600\n`)[0] ?? '', /^line 2 \(\.\.\/etc\): name: must be/);
    assert.match(
      faultsOf(`${head}press-04;192.168.10.24;x;9600\n`)[0] ?? '',
      /^line 2 \(press-04\): setup.toml:6: network.address: /,
    );
    assert.match(
      faultsOf(`${head}press-04;192.168.10.24/24;x;fast\n`)[0] ?? '',
      /^line 2 \(press-04\): lineside.toml:3: /,
    );
    assert.match(faultsOf(`${head}press-04;192.168.10.24/24;x;9600\\npath = 1\n`)[0] ?? '', /lineside.toml:3/);
    assert.match(faultsOf(`${head}"press-04;\n`)[0] ?? '', /line 2: a quote that is not closed/);
    assert.deepEqual(faultsOf('name;address;baud\npress-04;192.168.10.24/24;9600\n'), [
      'setup.toml: @password@ is no column of the list',
    ]);
    assert.deepEqual(faultsOf(`name;address;password;baud;hall\npress-04;192.168.10.24/24;x;9600;n\n`), [
      'no template has @hall@',
    ]);
    assert.ok(faultsOf('box\npress-04\n').includes('the first line has no column "name"'));
  });
});
