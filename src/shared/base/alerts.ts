/**
 * Alerts: each is registered once, as a rule. The device's own alerts, the Prometheus rules, the doctor's remedies and the
 * table in docs/reference/metrics-alerts.md come from it (scripts/reference). Pure.
 */

export interface Alert {
  /** "RefdataOutboxLagHigh", "RefdataOutboxDLQNonEmpty": the names of the Prometheus rules. */
  readonly name: string;
  readonly severity: 'info' | 'warning' | 'critical';
  /** Monotonic seconds since it fired. */
  readonly forSeconds: number;
  /** What is wrong, in words and numbers. */
  readonly summary: string;
  readonly value: number;
}

export interface Condition<HealthReport> {
  readonly name: string;
  readonly severity: Alert['severity'];
  /** It has to last so many seconds, from look to look, before it fires: `for` of the Prometheus rule. Default 0. */
  readonly forS?: number;
  /** Fires above 0. */
  readonly value: (healthReport: HealthReport) => number;
  readonly summary: (healthReport: HealthReport) => string;
}

export interface Rule<HealthReport> extends Condition<HealthReport> {
  /** The same condition on the metrics, in PromQL. */
  readonly expr: string;
  /** One line of Prometheus: BOX and VALUE stand for its instance and figure. */
  readonly title: string;
  /** The condition and its effect, in sentences. */
  readonly means: string;
  readonly remedy: string;
}

export interface AlertSource {
  alerts(): readonly Alert[];
}

export class Alerts<HealthReport> {
  readonly #rules: readonly Condition<HealthReport>[];
  /** By name, the monotonic milliseconds at which its value rose above 0. */
  readonly #since = new Map<string, number>();

  constructor(rules: readonly Condition<HealthReport>[]) {
    this.#rules = rules;
  }

  /** The alerts that fire now. An alert keeps its age while it fires at each look. */
  look(healthReport: HealthReport, nowMs: number): readonly Alert[] {
    const firing: Alert[] = [];
    for (const { name, severity, forS = 0, value, summary } of this.#rules) {
      const figure = value(healthReport);
      if (figure <= 0) {
        this.#since.delete(name);
        continue;
      }
      const since = this.#since.get(name) ?? nowMs;
      this.#since.set(name, since);
      const firedMs = since + forS * 1000;
      if (nowMs < firedMs) continue;
      const forSeconds = Math.floor((nowMs - firedMs) / 1000);
      firing.push({ name, severity, forSeconds, summary: summary(healthReport), value: figure });
    }
    return firing;
  }
}
