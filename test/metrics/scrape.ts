/** A scrape, taken apart: each metric with its type, its help and the labels that its series have. */
import assert from 'node:assert/strict';

export interface Scraped {
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly series: number;
}

const sample = /^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/;

export function scraped(text: string): Map<string, Scraped> {
  const found = new Map<string, Scraped>();
  const help = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, told, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (told === 'HELP') help.set(name, rest);
    if (told === 'TYPE') found.set(name, { type: rest, help: help.get(name) ?? '', labels: [], series: 0 });
    if (line === '' || line.startsWith('#')) continue;
    const [, series = '', labels = ''] = sample.exec(line) ?? [];
    const base = found.has(series) ? series : series.replace(/_(bucket|sum|count)$/, '');
    const metric = found.get(base);
    assert.ok(metric !== undefined, `a series without a type: ${line}`);
    const own = [...labels.matchAll(/([a-z_]+)="/g)].map(([, label = '']) => label).filter((label) => label !== 'le');
    found.set(base, { ...metric, labels: [...new Set([...metric.labels, ...own])], series: metric.series + 1 });
  }
  return found;
}
