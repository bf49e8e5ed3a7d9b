/** The shapes of administration: tokens, the doctor's findings. Pure. */
import { Type } from '@sinclair/typebox';
import { tokenSpec } from '../../../admin/verbs.ts';
import { choice, count, exact, time } from './shapes.ts';

const state = choice(['ok', 'warning', 'failed', 'skipped'], 'That of the worst finding.');

export const BackupQuery = exact({
  log: Type.Optional(choice(['true', 'false'], 'false: without the serial log.')),
});

export const adminComponents = {
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
  AddedToken: exact({
    ...tokenSpec.properties,
    token: Type.String({ description: 'The bearer token. Only its hash is kept.', examples: ['lsd_…'] }),
  }),
} as const;
