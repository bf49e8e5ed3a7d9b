/** Sockets that are not open, as the device's own alert: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';

export const socketRules: readonly Rule<readonly string[]>[] = [
  {
    name: 'LinesideSocketClosed',
    severity: 'critical',
    value: (units) => units.length,
    summary: (units) =>
      `not open: ${units.join(', ')}; clients are refused there, or met by a process that listens in its place ("systemctl restart lineside" opens them)`,
  },
];
