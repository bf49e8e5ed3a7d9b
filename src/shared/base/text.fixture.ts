/** Text for property tests. */
import fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };

/**
 * Any code point but surrogates, for fc.string({ unit }): the library's own unit 'binary', for which it makes a table of all
 * 1,112,064 of them in each process (1.4 s).
 */
export const codePoint: fc.Arbitrary<string> = fc.nat(0x10ffff - SURROGATES.count).map(
  (n) => String.fromCodePoint(n < SURROGATES.first ? n : n + SURROGATES.count),
  (text) => {
    const at = typeof text === 'string' ? text.codePointAt(0) : undefined;
    if (at === undefined || String.fromCodePoint(at) !== text || !text.isWellFormed())
      throw new Error('not one code point');
    return at < SURROGATES.first ? at : at - SURROGATES.count;
  },
);
