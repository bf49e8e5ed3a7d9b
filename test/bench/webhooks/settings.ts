/** What lineside's subscription and the bare loop have in common. */
export const SUBSCRIPTION = 'bench';
export const SECRET = 'a secret of the benchmark, 32 by';
/** Attempts that lineside has under way for one subscription. */
export const CONCURRENCY = 4;
