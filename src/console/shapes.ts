/** What the HTTP interface answers, as far as the page reads it. The interface's own document is /openapi.json. Pure. */

export interface Whoami {
  readonly name: string;
  readonly roles: readonly string[];
}

export type PortState = 'unknown' | 'closed' | 'opening' | 'open' | 'lost' | 'reopening' | 'closing';
export type Parity = 'none' | 'even' | 'odd' | 'mark' | 'space';

export interface LineConfig {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: Parity;
  readonly stopBits: number;
  readonly packetSize?: number;
}

export interface LineStatus {
  readonly portState: PortState;
  readonly portError: string;
  readonly portStateAgeMs: number;
  readonly requested: LineConfig | null;
  readonly effective:
    | (Omit<LineConfig, 'portName'> & { readonly driver?: string; readonly unverified?: boolean })
    | null;
  readonly currentPortName: string;
  readonly counters: Readonly<Record<string, number>>;
  readonly kernel: Readonly<Record<string, number>> | null;
  readonly log: LogStatus;
  readonly clock: { readonly state: string };
  readonly uptimeMs: number;
  readonly version: string;
  readonly subscribers: number;
}

interface LogStatus {
  readonly state: 'ok' | 'failing';
  readonly error: string;
  readonly logId: string;
  readonly firstId: number;
  readonly lastId: number;
  readonly headId: number;
  readonly usedBytes: number;
  readonly maxBytes: number;
  readonly pendingEntries: number;
  readonly lostEntries: number;
}

export interface Port {
  readonly portName: string;
  readonly description: string;
  readonly hardwareId: string;
}

/** ageS, rxBytes, txBytes, rxDroppedPackets, errors, portOpen. */
type Sample = readonly [number, number, number, number, number, number];

export interface History {
  readonly intervalS: number;
  readonly samples: readonly Sample[];
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

export interface Alert {
  readonly name: string;
  readonly severity: 'info' | 'warning' | 'critical';
  readonly forSeconds: number;
  readonly summary: string;
  readonly value: number;
}

export interface OutboxStatus {
  readonly waiting: number;
  readonly oldest?: { readonly id: number; readonly txTime: string; readonly ageSeconds: number };
  readonly inFlight: number;
  readonly publishedTotal: number;
  readonly refusedTotal: number;
  readonly unreachedTotal: number;
  readonly deadLetters: number;
  readonly blockedKeys: readonly BlockedKey[];
  readonly blockedKeyCount: number;
  readonly broker: {
    readonly configured: boolean;
    readonly connected: boolean;
    readonly reason: string;
    readonly forSeconds: number;
  };
}

export interface BlockedKey {
  readonly topic: string;
  readonly key: string;
  readonly outboxId: number;
  readonly attempts: number;
  readonly reason: string;
  readonly nextAttemptInSeconds: number;
}

export interface DeadLetter {
  readonly id: number;
  readonly diedAt: string;
  readonly attempts: number;
  readonly reason: string;
  readonly topic: string;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: string;
}

export interface WebhookStatus {
  readonly subscriptions: number;
  readonly activeSubscriptions: number;
  readonly blockedSubscriptions: number;
  readonly waiting: number;
  readonly oldestDueSeconds: number;
  readonly rejected: number;
  readonly failed: number;
  readonly offline: boolean;
  readonly deliveredTotal: number;
}

export const deliveryStates = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

export interface Attempt {
  readonly attempt: number;
  readonly at: string;
  readonly elapsedMs: number;
  readonly statusCode: number | null;
  readonly cause: string | null;
  readonly message: string;
  readonly responseBody: string | null;
}

export interface Delivery {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly state: DeliveryState;
  readonly occurredAt: string;
  readonly events: number;
  readonly attempts: number;
  readonly nextAttemptInSeconds: number | null;
  readonly endedAt: string | null;
  readonly lastAttempt: Attempt | null;
}

export interface DeliveryDetail extends Delivery {
  readonly body: string | null;
  readonly attemptList: readonly Attempt[];
}

export interface Dictionary {
  readonly name: string;
  readonly title: string;
  readonly scope: string;
  readonly version: number;
  readonly updatedAt: string;
}

export interface RefRecord {
  readonly dictionary: string;
  readonly businessKey: string;
  readonly version: number;
  readonly action: 'created' | 'updated' | 'closed';
  readonly data: Readonly<Record<string, unknown>>;
  readonly validFrom: string;
  readonly validTo: string;
  readonly txTime: string;
  readonly changedBy: string;
  readonly changeReason: string;
}

export interface HostFacts {
  readonly bootId: string;
  readonly uptimeSeconds: number;
  readonly ageSeconds: number;
  readonly temperatureCelsius: number | null;
  readonly throttled: string;
  readonly underVoltage: string;
  readonly memory: { readonly totalBytes: number | null; readonly availableBytes: number | null };
  readonly load: {
    readonly averages: readonly number[];
    readonly processors: number;
    readonly usedPercent: number | null;
  };
  readonly disk: {
    readonly totalBytes: number | null;
    readonly freeBytes: number | null;
    readonly writtenBytes: number | null;
    readonly writtenBytesEver: number | null;
    readonly lifeUsedPercent: number | null;
    readonly reserve: string;
  };
  readonly clock: string;
  readonly boots: {
    readonly count: number | null;
    readonly powerLosses: number | null;
    readonly afterPowerLoss: boolean;
  };
  readonly slot: {
    readonly name: string;
    readonly trying: boolean;
    readonly dataLost: boolean;
    readonly updateFailed: boolean;
  } | null;
}
