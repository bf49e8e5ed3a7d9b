/** What the system says when a port cannot be opened, as an error of the catalogue. Pure. */
import { type ErrorCode, LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';

interface Meaning {
  readonly code: ErrorCode;
  readonly text: string;
  readonly hint?: string;
}

const gone: Meaning = { code: 'PORT_NOT_FOUND', text: 'there is no such port now' };
const notATty: Meaning = { code: 'PORT_IO', text: 'it is not a serial port' };
const busy: Meaning = {
  code: 'PORT_BUSY',
  text: 'another process holds it',
  hint: 'stop the other program and try again',
};
const meanings: Readonly<Record<string, Meaning>> = {
  ENOENT: gone,
  ENXIO: gone,
  ENODEV: gone,
  EACCES: {
    code: 'PORT_PERMISSION',
    text: 'permission denied',
    hint: 'the service must be in the group that owns the device, usually dialout',
  },
  EPERM: { code: 'PORT_PERMISSION', text: 'operation not permitted', hint: 'see DeviceAllow in the service unit' },
  EBUSY: busy,
  ENOTTY: notATty,
  EISDIR: notATty,
};

/** serialport's errors carry no code: these are its texts. */
const bindingTexts: readonly (readonly [RegExp, string])[] = [
  [/No such (file or directory|device)/, 'ENOENT'],
  [/Permission denied/, 'EACCES'],
  [/Operation not permitted/, 'EPERM'],
  [/Is a directory/, 'EISDIR'],
  [/Inappropriate ioctl for device/, 'ENOTTY'],
  [/Cannot lock port|Device or resource busy/, 'EBUSY'],
];

export function openError(path: string, thrown: unknown, holder?: string): LinesideError {
  if (thrown instanceof LinesideError) return thrown;
  const text = messageOf(thrown);
  const code = systemCode(thrown) || (bindingTexts.find(([pattern]) => pattern.test(text))?.[1] ?? '');
  const meaning = meanings[code];
  if (meaning === undefined) return new LinesideError('PORT_IO', `cannot open ${path}: ${text}`, { cause: thrown });
  if (meaning === busy) return portBusy(path, holder, thrown);
  return new LinesideError(meaning.code, `cannot open ${path}: ${meaning.text}`, {
    cause: thrown,
    ...(meaning.hint === undefined ? {} : { hint: meaning.hint }),
  });
}

export function portBusy(path: string, holder: string | undefined, cause?: unknown): LinesideError {
  const who = holder ?? 'another process';
  return new LinesideError('PORT_BUSY', `cannot open ${path}: ${who} holds it`, {
    hint: `stop ${who} and try again`,
    ...(cause === undefined ? {} : { cause }),
  });
}
