/** Metrics as tables: name, help and figure of each, read at a scrape. Without a figure there is no series, rather than a misleading 0. */
import { Counter, Gauge, type Registry } from 'prom-client';

type Figures = Readonly<Record<string, number>>;

/** A figure, or several told apart by one label, whose values are from a fixed set. A name with "_total" is a counter. */
export type Metric<Source> =
  | readonly [name: string, help: string, figure: (source: Source) => number | null | undefined]
  | readonly [name: string, help: string, figures: (source: Source) => Figures | null | undefined, label: string];

/** Registers them; the function sets them. An undefined source has no figures. */
export function register<S>(
  registry: Registry,
  prefix: string,
  metrics: readonly Metric<S>[],
): (source: S | undefined) => void {
  const all = metrics.map(([name, help, figure, label]) => {
    const options = {
      name: `${prefix}${name}`,
      help,
      registers: [registry],
      labelNames: label === undefined ? [] : [label],
    };
    const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
    return (source: S | undefined): void => {
      // Without labels reset() leaves a 0.
      if (label === undefined) metric.remove();
      else metric.reset();
      const found = source === undefined ? undefined : figure(source);
      if (typeof found === 'number') metric.inc(found);
      else for (const [value, one] of Object.entries(found ?? {})) metric.inc({ [label ?? '']: value }, one);
    };
  });
  return (source) => {
    for (const set of all) set(source);
  };
}
