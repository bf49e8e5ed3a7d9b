/** The hub's facts about the machine it runs on. A figure that cannot be had is null, a state 'unknown': never a guess. Pure. */
import type { HostFacts as Shown } from '../gen/http.ts';

/** `hub` is not a fact about the machine: the HTTP interface adds it. */
export type HostFacts = Omit<Shown, 'hub'>;
/** 'unknown': the kernel does not report it, which is not 'no'. */
export type TriState = HostFacts['throttled'];
/** The file system of the hub's data, and the card or disk below it. */
export type DiskFacts = HostFacts['disk'];
export type BootFacts = HostFacts['boots'];
/** By the boot loader's word: which of the two systems runs, and what became of the data partition. */
export type SlotFacts = NonNullable<HostFacts['slot']>;
