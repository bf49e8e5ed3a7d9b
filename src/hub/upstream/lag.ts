/** Since when something waits to be sent: from where the log stood when it was looked at. Bounded, whatever waits. Pure. */

/** As far apart as looks have to be to be kept. */
const APART_MS = 5_000;
/** When there are more, every other one goes: the age of what waits for a month is right to some hours. */
const MOST = 512;

export class Lag {
  #logId = '';
  /** [last id, when it was first seen], oldest first. */
  #looks: [number, number][] = [];

  looked(logId: string, lastId: number, nowMs: number): void {
    if (logId !== this.#logId) this.#looks = [];
    this.#logId = logId;
    const last = this.#looks.at(-1);
    if (last !== undefined && lastId <= last[0]) return;
    // Within a look's distance the earlier moment stands for both: an age is never told too short.
    if (last !== undefined && nowMs - last[1] < APART_MS) last[0] = lastId;
    else this.#looks.push([lastId, nowMs]);
    if (this.#looks.length > MOST) this.#thin();
  }

  /** Each two become one: the ids of the later, the moment of the earlier. */
  #thin(): void {
    this.#looks = this.#looks.flatMap(([lastId, atMs], index, all) => {
      if (index % 2 === 1) return [[lastId, all[index - 1]?.[1] ?? atMs] satisfies [number, number]];
      return index === all.length - 1 ? [[lastId, atMs] satisfies [number, number]] : [];
    });
  }

  /** Milliseconds since the oldest entry above the id was there; 0: none is. */
  ageMs(afterId: number, nowMs: number): number {
    const first = this.#looks.find(([lastId]) => lastId > afterId);
    return first === undefined ? 0 : nowMs - first[1];
  }
}
