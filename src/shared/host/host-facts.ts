/** The hub's facts about the machine it runs on. A figure that cannot be had is null, a state 'unknown': never a guess. Pure. */
import type { Alert } from '../base/alerts.ts';

/** 'unknown': the kernel does not tell, which is not 'no'. */
export type Told = 'yes' | 'no' | 'unknown';

export interface HostFacts {
  readonly bootId: string;
  readonly uptimeSeconds: number;
  /** Age of these facts. */
  readonly ageSeconds: number;
  readonly temperatureCelsius: number | null;
  /** The processor is slowed down now: by heat or for want of voltage. */
  readonly throttled: Told;
  readonly underVoltage: Told;
  readonly memory: { readonly totalBytes: number | null; readonly availableBytes: number | null };
  /** Runnable threads, averaged over 1, 5 and 15 minutes, and the processors there are. */
  readonly load: {
    readonly averages: readonly number[];
    readonly processors: number;
    readonly usedPercent: number | null;
  };
  readonly disk: DiskFacts;
  readonly clock: 'synced' | 'unsynced' | 'unknown';
  readonly boots: BootFacts;
  /** null: this is no appliance's image. */
  readonly slot: SlotFacts | null;
}

/** The file system of the hub's data, and the card or disk below it. */
export interface DiskFacts {
  readonly totalBytes: number | null;
  readonly freeBytes: number | null;
  /** To the whole card since the machine was switched on. */
  readonly writtenBytes: number | null;
  /** To the file system since it was made; ext4 keeps that. */
  readonly writtenBytesEver: number | null;
  /** Upper bound of the card's used life time (eMMC reports steps of ten; SD cards do not report it). */
  readonly lifeUsedPercent: number | null;
  /** Reserve blocks: 'warning' 80 % used, 'urgent' 90 %. */
  readonly reserve: 'normal' | 'warning' | 'urgent' | 'unknown';
}

export interface BootFacts {
  /** Boots in which the hub ran on these data; null: they cannot be distinguished. */
  readonly count: number | null;
  /** Boots before which the hub had not been stopped: power was lost, or the machine reset. */
  readonly powerLosses: number | null;
  readonly afterPowerLoss: boolean;
}

/** By the boot loader's word: which of the two systems runs, and what became of the data partition. */
export interface SlotFacts {
  readonly name: string;
  /** Not yet known to work: the next boot goes back to the other one unless it is marked good. */
  readonly trying: boolean;
  /** The data partition could not be mounted: everything is kept in memory only. */
  readonly dataLost: boolean;
  /** An update did not become healthy, and this is the system that the box went back to. */
  readonly updateFailed: boolean;
}

/** The telemetry as other parts see it. */
export interface HostAdmin {
  facts(): HostFacts;
  alerts(): readonly Alert[];
}
