/** The shapes of administration: tokens, the doctor's findings. Pure. */
import { Type } from '@sinclair/typebox';
import { tokenSpec } from '../../../admin/verbs.ts';
import { choice, count, exact, jsonObject, orNull, page, time } from './shapes.ts';

const state = choice(['ok', 'warning', 'failed', 'skipped'], 'That of the worst finding.');

export const BackupQuery = exact({
  log: Type.Optional(choice(['true', 'false'], 'false: without the serial log.')),
});

const slot = choice(['a', 'b'], 'A slot of the card.');
export const ActionsQuery = exact({
  ...page,
  reads: Type.Optional(choice(['true', 'false'], 'true: also what only read. Default: false.')),
});

export const adminComponents = {
  AdministrationAction: exact({
    id: Type.Integer(),
    at: time('When it began.'),
    endedAt: orNull(time(''), 'When it ended; null: the helper or the box ended before.'),
    caller: Type.String({ description: 'Name of the token.', examples: ['ops'] }),
    verb: Type.String({ examples: ['tokens.add'] }),
    args: jsonObject('What belongs to the verb.'),
    outcome: Type.String({
      description: '"done", or why not: "failed: CODE", "aborted: …" or "interrupted".',
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
  AddedToken: exact({
    ...tokenSpec.properties,
    token: Type.String({ description: 'The bearer token. Only its hash is kept.', examples: ['lsd_…'] }),
  }),
} as const;
