import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { hexText, visibleColumns, visibleText } from '../shared/log-formats/byte-text.ts';
import { bytesOfHex, bytesOfText, dumpLines, fromBase64, type Typed } from './bytes.ts';

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('bytes for people', () => {
  it('are hex, cut with a mark', () => {
    assert.equal(hexText(Uint8Array.of(0, 10, 255)), '00 0a ff');
    assert.equal(hexText(Uint8Array.of(1, 2, 3), 2), '01 02 …');
  });

  it('are text where there is a picture, and escapes where there is none', () => {
    assert.equal(visibleText(utf8('Größe 5 €\r\n\t\\')), 'Größe 5 €\\r\\n\\t\\\\');
    assert.equal(visibleText(Uint8Array.of(0x00, 0x1b, 0x7f, 0xff, 0xc3)), '\\x00\\x1b\\x7f\\xff\\xc3');
  });

  it('show no character that hides itself or turns the text around it', () => {
    assert.equal(visibleText(utf8('a\u202eb\u200bc')), 'a\\xe2\\x80\\xaeb\\xe2\\x80\\x8bc');
    // A byte order mark, which decoders leave out.
    assert.equal(visibleText(utf8('\ufeffa\ufeff')), '\\xef\\xbb\\xbfa\\xef\\xbb\\xbf');
  });

  it('are a dump of bounded length', () => {
    const lines = dumpLines(utf8('0123456789abcdef\n'), 8, 2);
    assert.deepEqual(lines, ['0000  30 31 32 33 34 35 36 37  01234567\n', '0008  38 39 61 62 63 64 65 66  89abcdef\n']);
    assert.deepEqual(dumpLines(utf8('a\n'), 8, 2), ['0000  61 0a                    a.\n']);
  });

  it('come out of base64 as they went in', () => {
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    assert.deepEqual(fromBase64(Buffer.from(all).toString('base64')), all);
  });
});

const hex = (typed: Typed): string => ('bytes' in typed ? hexText(typed.bytes) : `! ${typed.fault}`);

describe('typed input', () => {
  it('is text with escapes, in UTF-8', () => {
    assert.equal(hex(bytesOfText('AT\\r\\n')), '41 54 0d 0a');
    assert.equal(hex(bytesOfText('\\x02\\xfF\\t\\0\\\\x41')), '02 ff 09 00 5c 78 34 31');
    assert.equal(hex(bytesOfText('ä€😀')), 'c3 a4 e2 82 ac f0 9f 98 80');
    assert.equal(hex(bytesOfText('')), '');
  });

  it('may be a whole file that was pasted', () => {
    const typed = bytesOfText(`\\x02${'x'.repeat(1_000_000)}`);
    assert.equal('bytes' in typed && typed.bytes.length, 1_000_001);
  });

  it('names an escape that is none', () => {
    assert.match(hex(bytesOfText('a\\q')), /"\\q" is no escape/);
    assert.match(hex(bytesOfText('\\x4')), /"\\x4" is not \\x and two hex digits/);
    assert.match(hex(bytesOfText('\\xg1')), /two hex digits/);
    assert.match(hex(bytesOfText('end\\')), /single \\/);
  });

  it('is hex in the ways people write it', () => {
    for (const text of ['48656c', '48 65 6C', '0x48,0x65,0x6c', '48:65:6c', ' 4865\n6c ']) {
      assert.equal(hex(bytesOfHex(text)), '48 65 6c', text);
    }
    assert.equal(hex(bytesOfHex(' ')), '');
  });

  it('names a hex digit that is none, and half a byte', () => {
    assert.match(hex(bytesOfHex('48 6g')), /"g" is not a hex digit/);
    assert.match(hex(bytesOfHex('48 6')), /"6" is not whole bytes/);
    assert.match(hex(bytesOfHex('0x')), /not whole bytes/);
  });

  it('fills no more columns than are counted, one for each Latin letter', () => {
    const parts = fc.constantFrom(0, 9, 65, 92, 0x80, 0xa0, 0xa9, 0xb0, 0xc2, 0xc3, 0xe2, 0xe6, 0xed, 0xf0, 0xf4, 0xff);
    fc.assert(
      fc.property(
        fc.array(parts).map((bytes) => Uint8Array.from(bytes)),
        (bytes) => {
          const length = [...visibleText(bytes)].length;
          assert.ok(visibleColumns(bytes) >= length && visibleColumns(bytes) <= 2 * length);
        },
      ),
    );
    const columns = (text: string): number => visibleColumns(new TextEncoder().encode(text));
    assert.deepEqual([columns('A\u00e9\u0416\\'), columns('\u6c34'), columns('\u00a0\t')], [5, 2, 10]);
  });

  it('can be copied from the log and sent again, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        assert.equal(hex(bytesOfText(visibleText(bytes))), hexText(bytes));
        assert.equal(hex(bytesOfHex(hexText(bytes))), hexText(bytes));
      }),
    );
  });
});
