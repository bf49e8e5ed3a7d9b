/** The wall clock of a process as a test sets it (libfaketime); the monotonic clock stays as it is. */
import { globSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
export const withoutFaketime = library === undefined ? 'libfaketime is not installed' : false;

export interface FakeTime {
  /** Of every process that has this clock. */
  readonly env: Readonly<Record<string, string>>;
  /** From now on, against the true time: "+10y", "-1h". */
  readonly set: (by: string) => void;
}

/** `dir` holds the file that the processes read it from. */
export function fakeTime(dir: string, by: string): FakeTime {
  const file = join(dir, 'faketime');
  const set = (to: string): void => {
    writeFileSync(`${file}.new`, `${to}\n`);
    renameSync(`${file}.new`, file);
  };
  set(by);
  const env = {
    LD_PRELOAD: library ?? '',
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  };
  return { env, set };
}
