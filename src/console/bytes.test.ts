import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dumpLines, fromBase64, hexText, visibleText } from './bytes.ts';

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
    assert.deepEqual(lines, [
      { offset: '0000', hex: '30 31 32 33 34 35 36 37', text: '01234567' },
      { offset: '0008', hex: '38 39 61 62 63 64 65 66', text: '89abcdef' },
    ]);
    assert.equal(dumpLines(utf8('a\n'), 8, 2)[0]?.text, 'a.');
  });

  it('come out of base64 as they went in', () => {
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    assert.deepEqual(fromBase64(Buffer.from(all).toString('base64')), all);
  });
});
