/** The workflow of a schema draft. Pure. */
import type { DefinitionEventType } from '../outbox/event.ts';
import type { DraftState, DraftStep } from './face.ts';

/** What happens to a draft: the steps of the interface, with the decision told apart. */
export type DraftAct = 'request-review' | 'approve' | 'reject' | 'publish' | 'withdraw';

const leads: Readonly<Record<DraftState, Partial<Record<DraftAct, DraftState>>>> = {
  draft: { 'request-review': 'inReview', withdraw: 'withdrawn' },
  inReview: { approve: 'approved', reject: 'rejected', withdraw: 'withdrawn' },
  approved: { publish: 'published', withdraw: 'withdrawn' },
  rejected: {},
  published: {},
  withdrawn: {},
};

/** undefined: the step does not lead on from there. */
export function stateAfter(state: DraftState, act: DraftAct): DraftState | undefined {
  return leads[state][act];
}

/** undefined: a decision is missing, or given where there is nothing to decide. */
export function actOf(step: DraftStep, decision: 'approved' | 'rejected' | undefined): DraftAct | undefined {
  if (step !== 'decide') return decision === undefined ? step : undefined;
  if (decision === undefined) return undefined;
  return decision === 'approved' ? 'approve' : 'reject';
}

export const eventsOfSteps: Readonly<
  Record<DraftAct, { readonly event: DefinitionEventType; readonly audit: string }>
> = {
  'request-review': { event: 'SchemaDraftReviewRequested', audit: 'draft.reviewRequested' },
  approve: { event: 'SchemaDraftDecided', audit: 'draft.approved' },
  reject: { event: 'SchemaDraftDecided', audit: 'draft.rejected' },
  publish: { event: 'SchemaDraftPublished', audit: 'draft.published' },
  withdraw: { event: 'SchemaDraftWithdrawn', audit: 'draft.withdrawn' },
};
