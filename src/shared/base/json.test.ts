import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeUtf8, isExactNumber, MAX_JSON_DEPTH, parseExactJson } from './json.ts';

function fault(text: string): string {
  const { fault } = parseExactJson(text);
  return fault === undefined ? '' : `${fault.pointer}: ${fault.message}`;
}

describe('JSON read exactly', () => {
  it('gives the value that JSON.parse gives, whatever can be written', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const { value, fault } = parseExactJson(text);
        // -0 and __proto__ aside, what fast-check writes is exact: it was made of doubles.
        if (fault !== undefined) return fault.message.includes('not allowed') || fault.message.includes('surrogate');
        assert.deepEqual(value, JSON.parse(text));
        return true;
      }),
    );
  });

  it('refuses numbers that a double would change, and says where', () => {
    const changed = [
      ['{"a":{"b":[0,9007199254740993]}}', '/a/b/1'],
      ['12345678901234567890', ''],
      ['[0.1000000000000000055]', '/0'],
      ['{"x":1e400}', '/x'],
      ['{"x":1e-400}', '/x'],
      ['{"a/b~c":-9007199254740993}', '/a~1b~0c'],
      ['[3.14159265358979323846]', '/0'],
    ] as const;
    for (const [text, pointer] of changed) {
      const { fault } = parseExactJson(text);
      assert.equal(fault?.pointer, pointer, text);
      assert.match(fault?.message ?? '', /cannot be kept exactly/);
    }
  });

  it('takes every other way to write a number that a double keeps', () => {
    const plain = '0 -0 0.0 1.0 100 1e2 1E+2 0.1 9007199254740992 1e22 5e-324 123456789012345680000';
    const more = '0e999999 1.7976931348623157e308 0.30000000000000004 10000000000000000000000';
    for (const number of `${plain} ${more}`.split(' ')) {
      assert.equal(fault(`[${number}]`), '', number);
    }
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => isExactNumber(String(number))),
    );
    fc.assert(
      fc.property(
        fc.bigInt({ min: 2n ** 53n, max: 2n ** 70n }),
        // Not what the double is to its last bit: what it is written as again. 2^70 would go out as 1.1805916207174113e+21.
        (integer) => isExactNumber(String(integer)) === (decimalOf(Number(integer)) === String(integer)),
      ),
    );
  });

  it('refuses a name that is there twice, escapes or not', () => {
    assert.equal(fault('{"a":1,"b":2,"a":3}'), '/a: is there twice in its object');
    assert.equal(fault('[{"a":1,"\\u0061":3}]'), '/0/a: is there twice in its object');
    assert.equal(fault('{"a":{"a":1},"b":[{"a":1},{"a":1}]}'), '');
    assert.equal(fault('{"constructor":1,"toString":2}'), '');
  });

  it('refuses __proto__ at any depth, also written with escapes', () => {
    assert.equal(fault('{"a":[{"__proto__":{"admin":true}}]}'), '/a/0/__proto__: is a name that is not allowed');
    assert.equal(fault('{"\\u005f_proto__":1}'), '/__proto__: is a name that is not allowed');
    assert.equal(fault('{"a":"__proto__"}'), '');
  });

  it('has no name that V8 reads as another because of an object before', () => {
    const text = '[{"z":1,"\\"":{"a":2}}]';
    JSON.parse(text.replace('\\"', '\\\\'));
    const { value, fault } = parseExactJson(text);
    if (fault === undefined) assert.equal(JSON.stringify(value), text);
    else
      assert.deepEqual(fault, { pointer: '/0/"', message: 'has a name that this version of Node.js reads as another' });
  });

  it('refuses halves of surrogate pairs, which no store keeps', () => {
    assert.match(fault('{"a":"\\ud83d"}'), /^\/a: .*surrogate/);
    assert.match(fault('{"\\ude00":1}'), /surrogate/);
    assert.equal(fault('{"a":"\\ud83d\\ude00"}'), '');
  });

  it('bounds the nesting', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    assert.equal(fault(nested(MAX_JSON_DEPTH)), '');
    assert.match(fault(nested(MAX_JSON_DEPTH + 1)), /nested more than 64 deep/);
    assert.match(fault(nested(500_000)), /nested more than 64 deep/);
    assert.equal(fault(`[${'[],'.repeat(1_000)}[]]`), '');
  });

  it('is not misled by what stands inside texts', () => {
    assert.equal(fault('{"a":"\\"]}{[,9007199254740993","b":"\\\\"}'), '');
    assert.match(fault('{"a":"\\\\","a":1}'), /twice/);
    assert.match(fault('{"a" : 1 , \n"b":[ 1, 9007199254740993 ]}'), /^\/b\/1/);
  });

  it('says what is no JSON', () => {
    for (const text of ['', '{', "{'a':1}", '01', 'NaN', '[1,]', '{"a":1}x', '"\u0001"'])
      assert.match(fault(text), /^: is not JSON/, text);
  });

  it('takes UTF-8 only', () => {
    assert.equal(decodeUtf8(Buffer.from('\uFEFF{"ä":"😀"}')), '{"ä":"😀"}');
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]])
      assert.equal(decodeUtf8(Uint8Array.from(bytes)), undefined);
  });
});

/** A double without an exponent, as its shortest digits say. */
function decimalOf(number: number): string {
  const [digits = '', exponent] = String(number).split('e+');
  if (exponent === undefined) return digits;
  const [whole = '', fraction = ''] = digits.split('.');
  return (whole + fraction).padEnd(Number(exponent) + 1, '0');
}
