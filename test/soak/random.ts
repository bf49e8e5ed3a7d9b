/** Chance that can be replayed: the same seed gives the same run of numbers. */
export interface Random {
  /** A whole number from min to max, both included. */
  between(min: number, max: number): number;
  bytes(length: number): Buffer;
}

/** Mulberry32: 32 bits of state are plenty for choosing moments and sizes. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
  return {
    between: (min, max) => min + (next() % (max - min + 1)),
    bytes(length) {
      const bytes = Buffer.allocUnsafe(length);
      for (let i = 0; i < length; i++) bytes[i] = next() >>> 24;
      return bytes;
    },
  };
}

export function anyOf<T>(list: readonly T[], random: Random): T {
  return list[random.between(0, list.length - 1)] as T;
}

/** Of each sender, from 1: `numbers` holds the last ones, as they continue over restarts. */
export function nextNumber(numbers: Map<string, number>, name: string): number {
  const number = (numbers.get(name) ?? 0) + 1;
  numbers.set(name, number);
  return number;
}

/** SEED of the environment, to replay a failure; else a new one. */
export function chosenSeed(): number {
  const given = process.env['SEED'];
  return given === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(given);
}
