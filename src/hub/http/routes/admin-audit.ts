/** The audit of administration, which the helper keeps. */
import type { AdministrationAction } from '../../../shared/gen/http.ts';
import { cursorAfter, positionOf } from '../../outbox/paging.ts';
import { ActionsQuery } from '../schemas/admin.ts';
import { helped } from './admin.ts';
import type { RouteParts, Routes } from './route.ts';

/** Names the list in its cursors. */
const actions = 'actions';

export function adminAuditRoutes(routes: Routes, { admin }: RouteParts): void {
  routes('administration')('GET /api/v1/admin/actions', 'admin', {
    id: 'listAdministrationActions',
    summary: 'List who asked the helper for what, newest first',
    description:
      'The audit of administration. The helper keeps it where the hub cannot change it: the newest 5,000 lines or more.',
    query: ActionsQuery,
    problems: helped,
    answer: { what: 'Actions.', listOf: 'AdministrationAction' },
    handle: async ({ authorization, query, page }) => {
      const [before] = positionOf(actions, page, [0]);
      const args = { limit: page.limit, reads: query.reads === 'true', ...(before > 0 && { before }) };
      const { items, next } = (await admin.call('audit', authorization, args)) as {
        readonly items: readonly AdministrationAction[];
        readonly next: number | null;
      };
      return { items, nextCursor: next === null ? undefined : cursorAfter(actions, next) };
    },
  });
}
