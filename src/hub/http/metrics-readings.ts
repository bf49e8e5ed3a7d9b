/** Metrics whose figure is asked for at each scrape; where there is none there is no series, rather than a 0 that looks like one. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** Sets one metric to what the source says. */
export type Reading<Source> = (source: Source) => void;
export type Figure<Source> = (source: Source) => number | undefined;

export function gaugeOf<S>(registry: Registry, name: string, help: string, figure: Figure<S>): Reading<S> {
  const gauge = new Gauge({ name, help, registers: [registry] });
  return (source) => {
    const value = figure(source);
    if (value === undefined) gauge.remove();
    else gauge.set(value);
  };
}

/** Of what is counted elsewhere. */
export function counterOf<S>(registry: Registry, name: string, help: string, figure: Figure<S>): Reading<S> {
  const counter = new Counter({ name, help, registers: [registry] });
  return (source) => {
    const value = figure(source);
    counter.remove();
    if (value !== undefined) counter.inc(value);
  };
}

/** Several of one name, told apart by one label, whose values are from a fixed set. */
export type Labelled<S> = (source: S) => Readonly<Record<string, number>> | undefined;

export function gaugesOf<S>(
  registry: Registry,
  { name, help, label }: { readonly name: string; readonly help: string; readonly label: string },
  figures: Labelled<S>,
): Reading<S> {
  const gauge = new Gauge({ name, help, labelNames: [label], registers: [registry] });
  return (source) => {
    gauge.reset();
    for (const [value, figure] of Object.entries(figures(source) ?? {})) gauge.set({ [label]: value }, figure);
  };
}

export function countersOf<S>(
  registry: Registry,
  { name, help, label }: { readonly name: string; readonly help: string; readonly label: string },
  figures: Labelled<S>,
): Reading<S> {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  return (source) => {
    counter.reset();
    for (const [value, figure] of Object.entries(figures(source) ?? {})) counter.inc({ [label]: value }, figure);
  };
}
