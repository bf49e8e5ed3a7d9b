import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { csvRows, separatorOf } from './csv.ts';

const rowsOf = (text: string, separator = ','): unknown[] =>
  [...csvRows(text, separator)].map((row) =>
    'fault' in row ? [row.line, row.fault] : [row.line, ...row.cells.map((cell) => cell.text)],
  );

describe('CSV', () => {
  it('has cells with quotes, separators and line ends in them; each row has the line on which it begins', () => {
    assert.deepEqual(rowsOf('a,b\r\n"x, ""y""","1\r\n2"\r\n\r\nc,\nd,e'), [
      [1, 'a', 'b'],
      [2, 'x, "y"', '1\r\n2'],
      [5, 'c', ''],
      [6, 'd', 'e'],
    ]);
    assert.deepEqual(rowsOf('a\rb\r'), [
      [1, 'a'],
      [2, 'b'],
    ]);
    assert.deepEqual(rowsOf(''), []);
    // A quoted cell without a character is no blank line.
    assert.deepEqual(rowsOf('a\n""\n'), [
      [1, 'a'],
      [2, ''],
    ]);
  });

  it('is read on after a row with a fault', () => {
    assert.deepEqual(rowsOf('a\nx"y,1\n"x"y,2\nb\n"open\nc'), [
      [1, 'a'],
      [2, 'stray'],
      [3, 'stray'],
      [4, 'b'],
      [5, 'open'],
    ]);
  });

  it('has the separator that its first line has most of', () => {
    const of = ['a,b', 'a;b,c;d', 'a\tb', '"a;b;c",d', 'a', ''].map(separatorOf);
    assert.deepEqual(of, [',', ';', '\t', ',', ',', ',']);
    assert.deepEqual(rowsOf('a;b\n1,5;"x;y"', ';'), [
      [1, 'a', 'b'],
      [2, '1,5', 'x;y'],
    ]);
  });

  it('comes back as it was written, whatever its cells have', () => {
    const cell = fc.oneof(fc.string(), fc.stringMatching(/^[",;\t\r\n ax]*$/));
    const table = fc.array(fc.array(cell, { minLength: 1, maxLength: 5 }), { maxLength: 8 });
    fc.assert(
      fc.property(table, fc.constantFrom(',', ';', '\t'), fc.constantFrom('\n', '\r\n'), (rows, separator, end) => {
        const written = rows.map((row) => row.map((one) => `"${one.replaceAll('"', '""')}"`).join(separator)).join(end);
        const read = [...csvRows(written, separator)];
        assert.deepEqual(
          read.map((row) => ('cells' in row ? row.cells.map(({ text }) => text) : row)),
          rows,
        );
        assert.ok(read.every(({ line }, at) => at === 0 || line > (read[at - 1]?.line ?? 0)));
      }),
    );
  });

  it('takes any text, in steps that lead to its end', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[",;\r\nab]*$/), (text) => {
        assert.ok([...csvRows(text, ',')].length <= text.length);
      }),
    );
  });
});
