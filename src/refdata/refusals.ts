/** Refusals that several parts have in common. Pure. */
import { LinesideError } from '../base/errors.ts';
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

/** `hint`: where the one that is there is found. Throws where `asked`, the version of If-Match, is not the one that is there. */
export function mustMatch(
  what: string,
  version: number,
  asked: number | undefined,
  hint = 'Read it again, and decide anew.',
): void {
  if (asked === undefined) {
    throw new LinesideError('VERSION_REQUIRED', `${what} is only changed by who names its version`, {
      hint: `Read it, and send If-Match: "<version>" with the version that you have read.`,
    });
  }
  if (asked === version) return;
  throw new LinesideError('STALE_VERSION', `${what} has version ${version} now, not ${asked}`, {
    hint,
  });
}
