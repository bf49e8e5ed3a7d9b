import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { elementsOf, membersOf, syntaxFaultAt, withMember } from './json-text.ts';

describe('one member of a JSON text', () => {
  it('is changed; all else stays letter by letter', () => {
    const json = '{ "a":1.50,\n\t"b" : {"}":"\\"]"} , "n":12345678901234567890}';
    assert.equal(withMember(json, 'b', '2'), '{ "a":1.50,\n\t"b" : 2 , "n":12345678901234567890}');
    assert.equal(withMember(json, 'a', undefined), '{ "b" : {"}":"\\"]"} , "n":12345678901234567890}');
    assert.equal(withMember(json, 'n', undefined), '{ "a":1.50,\n\t"b" : {"}":"\\"]"}}');
    assert.equal(withMember(json, 'new', 'true'), `${json.slice(0, -1)}, "new": true}`);
  });

  it('is added as the others stand', () => {
    assert.equal(withMember('{\n  \n}', 'a', '1'), '{\n  "a": 1\n}');
    assert.equal(withMember('{\n    "a": 1\n}', 'b', '2'), '{\n    "a": 1,\n    "b": 2\n}');
    assert.equal(withMember('{}', 'a', '1'), '{"a": 1}');
    assert.equal(withMember('{"a":1}', 'b', '2'), '{"a":1, "b": 2}');
    assert.equal(withMember('{"a": 1}', 'a', undefined), '{}');
    assert.equal(withMember('{}', 'a', undefined), '{}');
  });

  it('counts as the last of its name, as for JSON.parse', () => {
    assert.equal(membersOf('{"a":1,"a":2}').get('a'), '2');
    assert.equal(withMember('{"a":1,"b":0,"a":2}', 'a', '3'), '{"a":1,"b":0,"a":3}');
    assert.equal(withMember('{"a":1,"b":0,"a":2}', 'a', undefined), '{"b":0}');
  });

  it('is what JSON.parse makes of it, for any object, name and value', () => {
    const parse = (json: string): unknown => JSON.parse(json);
    const names = fc.oneof(fc.string({ minLength: 2 }), fc.constantFrom('', 'a', '__proto__', 'x\\"', '}"'));
    const values = fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.array(fc.string()),
      fc.constantFrom(null, {}, [], { '"}': ['{'] }, true),
    );
    const objects = fc.dictionary(names, values, { noNullPrototype: true });
    fc.assert(
      fc.property(objects, names, values, fc.constantFrom(0, 2), (of, name, value, indent) => {
        const json = JSON.stringify(of, undefined, indent);
        const entries = Object.entries(parse(json) as object);
        assert.deepEqual(
          [...membersOf(json)].map(([one, text]) => [one, parse(text)]),
          entries,
        );
        const others = entries.filter(([one]) => one !== name);
        const changed = withMember(json, name, JSON.stringify(value));
        assert.deepEqual(
          new Map(Object.entries(parse(changed) as object)),
          new Map([...entries, [name, parse(JSON.stringify(value))]]),
        );
        assert.deepEqual(Object.entries(parse(withMember(changed, name, undefined)) as object), others);
      }),
    );
  });

  it('may be a list, whose values are found one by one', () => {
    assert.deepEqual(elementsOf('[ 1.50 ,"a,]" , {"b":[1,2]},[]]'), ['1.50', '"a,]"', '{"b":[1,2]}', '[]']);
    assert.deepEqual([elementsOf('[]'), elementsOf(' [ ] ')], [[], []]);
  });

  it('is found in a text that is as deep as a text can be', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    assert.equal(membersOf(`{"a":${deep},"b":1}`).get('b'), '1');
  });
});

describe('the place of a fault in a text', () => {
  it('is where the parser of a browser says', () => {
    const json = '{"a": 1,\n"b" 2}';
    const at = json.indexOf('2');
    assert.throws(
      () => JSON.parse(json),
      ({ message }: Error) => syntaxFaultAt(json, message) === at,
    );
    const ofFirefox = "JSON.parse: expected ':' after property name in object at line 2 column 5 of the JSON data";
    assert.equal(syntaxFaultAt(json, ofFirefox), at);
    assert.equal(syntaxFaultAt(json, 'Unexpected end of JSON input'), undefined);
  });
});
