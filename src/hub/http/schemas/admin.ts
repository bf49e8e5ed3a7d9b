/** The shapes of administration: tokens, the doctor's findings. Pure. */
import { Type } from '@sinclair/typebox';
import { configurationText, tokenSpec, uploadHash } from '../../../admin/verbs.ts';
import { choice, count, exact, jsonObject, orNull, page, redacted, time } from './shapes.ts';

const state = choice(['ok', 'warning', 'failed', 'skipped'], 'That of the worst finding.');

export const BackupQuery = exact({
  log: Type.Optional(choice(['true', 'false'], 'false: without the serial log.')),
});

const slot = choice(['a', 'b'], 'A slot of the card.');

const work = (did: string) =>
  orNull(
    exact({
      state: choice(['running', 'done', 'failed', 'aborted'], 'aborted: it ended without an outcome.'),
      step: Type.String({ examples: ['writing the root'] }),
      percent: count('Of the step.'),
      begunAt: time('When it began.'),
      result: Type.String({
        description: "'' unless it is done: the version of the update, or the id of the restored box.",
      }),
      error: Type.String({ description: "'' unless it failed." }),
      hint: Type.String(),
    }),
    `The last unit that ${did}; null: none since the start of the box.`,
  );

/** The bytes of a file. */
export const UploadBody = Type.Unsafe<never>({
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
});
export const ActionsQuery = exact({
  ...page,
  reads: Type.Optional(choice(['true', 'false'], 'true: also what only read. Default: false.')),
});

/** A secret may have been typed into the text. */
export const ConfigurationBody = exact(configurationText, { [redacted]: true });
export const ConfigurationHash = exact({ hash: configurationText.hash });
const configurationKeys = (description: string) =>
  Type.Array(Type.String(), { description, examples: [['log.commit_ms']] });

export const adminComponents = {
  Configuration: exact({
    file: Type.String({ examples: ['/etc/lineside/lineside.toml'] }),
    text: Type.String({ description: 'The file; <hidden N> in place of what may be a secret.' }),
    hash: Type.String({ description: 'Of the text. A change names it.' }),
    hidden: count('How many parts are hidden.'),
    hasPrevious: Type.Boolean({ description: 'There is a file of before the last change, to be put back.' }),
  }),
  ConfigurationChange: exact({
    file: Type.String({ examples: ['/etc/lineside/lineside.toml'] }),
    hash: Type.String({ description: 'hash of the new text.' }),
    isChanged: Type.Boolean({ description: 'It differs from the file of before.' }),
    faults: Type.Array(
      exact({
        path: Type.String({ description: "Key or section; '' if the line is no TOML.", examples: ['log.commit_ms'] }),
        line: orNull(Type.Integer({ minimum: 1 }), 'null: in no line of the text.'),
        message: Type.String(),
      }),
      { description: 'Every fault. With one, nothing is changed.' },
    ),
    warnings: Type.Array(Type.String(), { description: 'Old names of keys.' }),
    live: configurationKeys('Changed keys that apply at once.'),
    hub: configurationKeys('Changed keys that the hub restarts for.'),
    restart: configurationKeys('Changed keys that need a restart of the service.'),
    unused: configurationKeys('Changed keys that count for nothing, since systemd opens the sockets.'),
    isReloaded: Type.Boolean({ description: 'The service was asked to read the file.' }),
  }),
  AdministrationAction: exact({
    id: Type.Integer(),
    at: time('When it began.'),
    endedAt: orNull(time(''), 'When it ended; null: the helper or the box ended before.'),
    caller: Type.String({ description: 'Name of the token.', examples: ['ops'] }),
    verb: Type.String({ examples: ['tokens.add'] }),
    args: jsonObject('What belongs to the verb.'),
    outcome: Type.String({
      description:
        '"done", with the keys that a change of the configuration changed; or why not: "failed: CODE", "aborted: …" or "interrupted".',
      examples: ['done'],
    }),
  }),
  TokenEntry: exact({ ...tokenSpec.properties, createdAt: time('When it was added.') }),
  DoctorReport: exact({
    version: Type.String(),
    state,
    checks: Type.Array(
      exact({
        name: Type.String({ examples: ['disk'] }),
        title: Type.String(),
        state,
        findings: Type.Array(
          exact({ state, found: Type.String(), todo: Type.String({ description: "'' if there is nothing to do." }) }),
        ),
        tookMs: count('Milliseconds.'),
      }),
    ),
  }),
  UpdateState: exact({
    version: Type.String({ description: 'Of the lineside that runs.', examples: ['1.3.0'] }),
    running: slot,
    onTrial: Type.Boolean({
      description: 'The running slot is on trial: if it does not become healthy, the box returns to the good slot.',
    }),
    good: slot,
    trying: orNull(slot, 'On trial, or tried at the next start.'),
    triesLeft: count('Starts that the trial has left.'),
    failed: orNull(slot, 'The update in this slot did not become healthy, and no update was installed since.'),
  }),
  UpdateBundle: exact({
    ...uploadHash.properties,
    version: Type.String({ examples: ['1.3.0'] }),
    board: Type.String({ description: 'What it runs on.', examples: ['raspberry-pi-arm64'] }),
    builtAt: time('When it was made.'),
    slot: choice(['a', 'b'], 'The slot into which it can be installed.'),
  }),
  BackupContents: exact({
    ...uploadHash.properties,
    deviceId: Type.String({ description: 'device.id of the box that it is of: the restored box gets it.' }),
    createdAt: time('When it was made.'),
    version: Type.String({ description: 'Of the lineside that made it.', examples: ['1.3.0'] }),
    withKeys: Type.Boolean({ description: 'It has keys and secrets. They are not restored over HTTP.' }),
    bytes: count('Size of the file.'),
    logBytes: orNull(count('Bytes.'), 'Size of the serial log; null: it has none, and the log of the box stays.'),
    refdataBytes: orNull(count('Bytes.'), 'Size of the reference data; null: it has none, and those of the box stay.'),
    configFiles: count('Files of /etc/lineside in it.'),
  }),
  AdminWork: exact({ update: work('installed an update'), restore: work('restored a backup') }),
  AddedToken: exact({
    ...tokenSpec.properties,
    token: Type.String({ description: 'The bearer token. Only its hash is kept.', examples: ['lsd_…'] }),
  }),
} as const;
