/** The device's own alerts, from a table of rules over what a room says of itself. Pure. */

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

export interface Rule<HealthReport> {
  readonly name: string;
  readonly severity: Alert['severity'];
  /** It has to last so many seconds, from look to look, before it fires: `for` of the Prometheus rule. Default 0. */
  readonly forS?: number;
  /** Fires above 0. */
  readonly value: (healthReport: HealthReport) => number;
  readonly summary: (healthReport: HealthReport) => string;
}

/** Who has alerts to tell. */
export interface AlertSource {
  alerts(): readonly Alert[];
}

export class Alerts<HealthReport> {
  readonly #rules: readonly Rule<HealthReport>[];
  /** By name, the monotonic milliseconds at which its value rose above 0. */
  readonly #since = new Map<string, number>();

  constructor(rules: readonly Rule<HealthReport>[]) {
    this.#rules = rules;
  }

  /** What fires now. An alert keeps its age while it goes on firing from look to look. */
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
