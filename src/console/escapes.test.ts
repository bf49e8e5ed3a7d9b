import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { hexText, visibleText } from './bytes.ts';
import { bytesOfHex, bytesOfText, type Typed } from './escapes.ts';

const hex = (typed: Typed): string => ('bytes' in typed ? hexText(typed.bytes) : `! ${typed.fault}`);

describe('what a person types', () => {
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

  it('can be copied from the log and sent again, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        assert.equal(hex(bytesOfText(visibleText(bytes))), hexText(bytes));
        assert.equal(hex(bytesOfHex(hexText(bytes))), hexText(bytes));
      }),
    );
  });
});
