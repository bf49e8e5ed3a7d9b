import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { faultsInFile, type ImportFile, type ImportFormat, readImport } from './import-file.ts';

const schema = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    floor: { type: 'integer' },
    height: { type: 'number' },
    heated: { type: ['boolean', 'null'] },
    level: { enum: ['low', 'high', 3] },
    place: {
      type: 'object',
      properties: { x: { type: 'number' }, deep: { type: 'object', properties: { a: { type: 'string' } } } },
    },
    tags: { type: 'array' },
    'a.b': { type: 'boolean' },
  },
};

function read(file: string, format: ImportFormat = 'csv'): ImportFile {
  const steps = readImport(file, { dictionary: 'rooms', schema, format });
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

const sent = (file: string, format?: ImportFormat): unknown[] =>
  read(file, format).lines.map((line) => JSON.parse(line));
const faults = (file: string, format?: ImportFormat): unknown[] =>
  read(file, format).faults.map(({ line, fault }) => [line, fault]);

describe('an import from CSV', () => {
  it('has the types of the schema; empty cells are left out, quoted empty ones are empty texts', () => {
    const file =
      '\uFEFFbusinessKey,validFrom,action,name,floor,height,heated,level,place.x,place.deep.a,tags,a.b,more\r\n' +
      'r1,2026-03-01T00:00:00Z,,"Hall, ""A""",-2,1.50,TRUE,high,0.1,deep,"[1,2]",false,007\r\n' +
      'r2,,upsert,"",,,,3,,,,,\r\n' +
      'r3,2026-03-01T00:00:00Z,close,x,1,,,,,,,,\r\n';
    const { upserts, closes, lines, lineNumbers, first } = read(file);
    assert.deepEqual([upserts, closes, lineNumbers], [2, 1, [2, 3, 4]]);
    assert.equal(
      lines[0],
      '{"dictionary":"rooms","businessKey":"r1","validFrom":"2026-03-01T00:00:00Z","data":{"name":"Hall, \\"A\\"","floor":-2,"height":1.50,"heated":true,"level":"high","place":{"x":0.1,"deep":{"a":"deep"}},"tags":[1,2],"a.b":false,"more":"007"}}',
    );
    assert.equal(lines[1], '{"dictionary":"rooms","businessKey":"r2","data":{"name":"","level":3}}');
    assert.equal(lines[2], '{"dictionary":"rooms","businessKey":"r3","action":"close"}');
    assert.deepEqual(first[2], { line: 4, businessKey: 'r3', action: 'close', validFrom: '', data: '' });
  });

  it('names each fault with its line before anything is sent', () => {
    const file =
      'businessKey,action,floor,height,heated,level,tags\na,,1.5,1,yes,mid,[1\nb,drop,,"1,5",,,\n,,,,,,\nc,,1\nd,,x"y,,,,\nb2,,,,,,\nb2,,,,,,';
    assert.deepEqual(faults(file), [
      [2, 'floor: "1.5" is not a whole number'],
      [2, 'heated: "yes" is not true or false'],
      [2, 'level: "mid" is not allowed; allowed: "low", "high", 3'],
      [2, 'tags: "[1" is not JSON'],
      [3, 'height: "1,5" is not a number, such as 21.5'],
      [3, 'action: "drop" is not upsert or close'],
      [4, 'the business key is missing'],
      [5, 'has 3 cells; the first row has 7'],
      [6, 'a cell with a quotation mark in it must be in quotation marks, and the mark doubled'],
      [8, 'the business key "b2" is in line 7 already'],
    ]);
  });

  it('needs a first row that names its columns, each once', () => {
    const headers = {
      name: 'no column is called businessKey',
      'businessKey,name,name': 'two columns are called "name"',
      'businessKey,,x': 'a column has no name',
      'businessKey,place,place.x': '"place.x" is part of another column',
    };
    for (const [header, fault] of Object.entries(headers)) assert.deepEqual(faults(`${header}\nr1,1,2`), [[1, fault]]);
    assert.deepEqual(sent('businessKey,a,a.b\nr1,1,true'), [
      { dictionary: 'rooms', businessKey: 'r1', data: { a: '1', 'a.b': true } },
    ]);
    assert.deepEqual(faults(''), [[1, 'the first row must name the columns']]);
  });

  it('comes to the records that were written', () => {
    const record = fc.record(
      {
        name: fc.string(),
        floor: fc.integer(),
        height: fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => (Object.is(one, -0) ? 0 : one)),
        heated: fc.boolean(),
        level: fc.constantFrom('low', 'high', 3),
        tags: fc.array(fc.oneof(fc.string(), fc.integer(), fc.constant(null))),
        'place.x': fc.integer(),
      },
      { requiredKeys: [] },
    );
    const quoted = (one: unknown): string => {
      if (one === undefined) return '';
      return `"${(typeof one === 'string' ? one : JSON.stringify(one)).replaceAll('"', '""')}"`;
    };
    const names = ['name', 'floor', 'height', 'heated', 'level', 'tags', 'place.x'] as const;
    fc.assert(
      fc.property(fc.array(record, { maxLength: 5 }), (records) => {
        const rows = records.map((one, at) => [`k${at}`, ...names.map((name) => quoted(one[name]))].join(';'));
        const is = sent(['businessKey', ...names].join(';') + rows.map((row) => `\r\n${row}`).join(''));
        const wanted = records.map(({ 'place.x': x, ...data }, at) => ({
          dictionary: 'rooms',
          businessKey: `k${at}`,
          data: { ...data, ...(x !== undefined && { place: { x } }) },
        }));
        assert.deepEqual(is, JSON.parse(JSON.stringify(wanted)));
      }),
    );
  });
});

describe('an import from NDJSON', () => {
  it('is sent letter by letter, with the dictionary if a line names none', () => {
    const file =
      '{"businessKey":"a","data":{"n":1.0,"big":12345678901234567890}}\r\n\n{ "dictionary":"rooms", "businessKey":"b", "action":"close"}';
    const { lines, lineNumbers, upserts, closes } = read(file, 'ndjson');
    assert.deepEqual(lines, [
      '{"dictionary":"rooms","businessKey":"a","data":{"n":1.0,"big":12345678901234567890}}',
      '{ "dictionary":"rooms", "businessKey":"b", "action":"close"}',
    ]);
    assert.deepEqual([lineNumbers, upserts, closes], [[1, 3], 1, 1]);
  });

  it('names each fault with its line', () => {
    const file =
      '{"businessKey":"a","data":{}}\n{\n[]\n{"dictionary":"others","businessKey":"b"}\n{}\n{"businessKey":"c","action":"drop"}';
    assert.deepEqual(faults(file, 'ndjson'), [
      [2, 'is not a JSON object on one line'],
      [3, 'is not a JSON object on one line'],
      [4, 'is for the dictionary "others": import it there'],
      [5, 'the business key is missing'],
      [6, 'action: "drop" is not upsert or close'],
    ]);
  });
});

describe('an import', () => {
  it('is bounded: records, faults', () => {
    const many = Array.from({ length: 100_002 }, (_, at) => `k${at}`).join('\n');
    const large = read(`businessKey\n${many}`);
    assert.deepEqual(
      [large.lines.length, large.faults],
      [100_000, [{ line: 100_002, fault: 'more than 100000 records: split the file' }]],
    );
    assert.equal(read('x\n'.repeat(5_000), 'ndjson').faults.length, 1_000);
  });

  it('shows a refusal of the box at the line of the file', () => {
    const file = read('businessKey,name\n"a","x\ny"\n\nb,z');
    assert.deepEqual(
      faultsInFile(
        ['line 2: /data/name is too short', 'line 2: "b" is in line 1 already', 'line 9: x', 'and 3 more'],
        file,
      ),
      [
        { line: 5, fault: '/data/name is too short' },
        { line: 5, fault: '"b" is in line 2 already' },
        { line: 0, fault: 'line 9: x' },
        { line: 0, fault: 'and 3 more' },
      ],
    );
  });
});
