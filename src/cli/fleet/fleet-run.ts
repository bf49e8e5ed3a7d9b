/** One command over many boxes: some first, then in waves, so many at once. After too many failures no further box is begun. */

export interface FleetPlan {
  readonly boxes: readonly string[];
  /** Boxes of the first wave; a failure among them ends the run. */
  readonly canaries: number;
  /** Boxes of each wave after it: it begins when the wave before has ended. */
  readonly waveSize: number;
  readonly parallel: number;
  /** Failures after which no further box is begun; those that run go on. */
  readonly stopAfter: number;
}

/** Resolves when nothing runs any more. `run` answers whether it went well, and never rejects. */
export async function runFleet(
  plan: FleetPlan,
  stop: AbortSignal,
  run: (box: string) => Promise<boolean>,
): Promise<void> {
  let failures = 0;
  for (const [number, wave] of wavesOf(plan).entries()) {
    const most = number === 0 && plan.canaries > 0 ? 1 : plan.stopAfter;
    const isOver = (): boolean => stop.aborted || failures >= most;
    const left = [...wave];
    const runner = async (): Promise<void> => {
      for (let box = next(left, isOver); box !== undefined; box = next(left, isOver)) {
        if (!(await run(box))) failures += 1;
      }
    };
    await Promise.all(Array.from({ length: Math.min(plan.parallel, wave.length) }, runner));
    if (isOver()) return;
  }
}

function next(left: string[], isOver: () => boolean): string | undefined {
  return isOver() ? undefined : left.shift();
}

function wavesOf({ boxes, canaries, waveSize }: FleetPlan): readonly (readonly string[])[] {
  const waves = canaries > 0 ? [boxes.slice(0, canaries)] : [];
  for (let at = canaries; at < boxes.length; at += waveSize) waves.push(boxes.slice(at, at + waveSize));
  return waves;
}
