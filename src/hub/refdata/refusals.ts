/** Refusals that several parts have in common. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type ExpectedVersion, expectedText, isExpected } from '../../shared/base/expected-version.ts';
import { changeReasonFault } from './names.ts';

/** Throws INVALID_ARGUMENT with every reason, where there is one. */
export function refuseFaults(what: string, reasons: readonly string[]): void {
  if (reasons.length === 0) return;
  throw new LinesideError(
    'INVALID_ARGUMENT',
    `${what}: ${reasons.length === 1 ? reasons[0] : `${reasons.length} faults`}`,
    {
      reasons,
    },
  );
}

/** `pointer fault`, or nothing where there is no fault. */
export function faultAt(pointer: string, fault: string): readonly string[] {
  return fault === '' ? [] : [`${pointer} ${fault}`];
}

export function reasonFaults(changeReason: string | undefined): readonly string[] {
  return faultAt('/changeReason', changeReasonFault(changeReason ?? ''));
}

/** `hint`: where the version that is there is found. VERSION_REQUIRED, or STALE_VERSION: another one is expected. */
export function requireVersion(
  what: string,
  version: number,
  expected: ExpectedVersion | undefined,
  hint = 'Read it again, and decide again.',
): void {
  if (expected === undefined) {
    throw new LinesideError('VERSION_REQUIRED', `${what} is only changed by who names its version`, {
      hint: `Read it, and send If-Match: "<version>" with the version that you have read.`,
    });
  }
  if (isExpected(version, expected)) return;
  throw new LinesideError('STALE_VERSION', `${what} has version ${version} now, not ${expectedText(expected)}`, {
    hint,
  });
}
