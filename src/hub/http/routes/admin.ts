/** Administration: what root does for an administrator, through the helper. The caller's own token goes along; the helper checks it. */
import { tokenSpec } from '../../../admin/verbs.ts';
import type { AddedToken, DoctorReport, TokenEntry } from '../../../shared/gen/http.ts';
import type { RouteParts, Routes } from './route.ts';

export function adminRoutes(routes: Routes, { admin }: RouteParts): void {
  const route = routes('administration');
  route('GET /api/v1/admin/tokens', 'admin', {
    id: 'listTokens',
    summary: 'List the tokens: names and roles, no secrets',
    problems: helped,
    answer: { what: 'Tokens.', listOf: 'TokenEntry' },
    handle: async ({ authorization }) => ({
      items: (await admin.call('tokens.list', authorization, {})) as readonly TokenEntry[],
      nextCursor: undefined,
    }),
  });
  route('POST /api/v1/admin/tokens', 'admin', {
    id: 'addToken',
    summary: 'Add a token; the answer has it this once',
    body: tokenSpec,
    problems: helped,
    answer: { status: 201, what: 'The token.', of: 'AddedToken' },
    handle: async ({ authorization, body }) => (await admin.call('tokens.add', authorization, body)) as AddedToken,
  });
  route('DELETE /api/v1/admin/tokens/:name', 'admin', {
    id: 'revokeToken',
    summary: 'Revoke a token at once; never the last one with the role admin',
    problems: helped,
    answer: { status: 204, what: 'It is revoked.' },
    handle: ({ authorization, params: { name } }) => admin.call('tokens.revoke', authorization, { name }),
  });
  route('POST /api/v1/admin/restart', 'admin', {
    id: 'restartService',
    summary: 'Restart the service: the port is closed for some seconds',
    problems: helped,
    answer: { status: 204, what: 'It restarts now.' },
    handle: ({ authorization }) => admin.call('restart', authorization, {}),
  });
  route('GET /api/v1/admin/doctor', 'admin', {
    id: 'runDoctor',
    summary: 'Check everything that the service needs; takes up to a minute',
    problems: helped,
    answer: { what: 'The findings.', of: 'DoctorReport' },
    handle: async ({ authorization }) => (await admin.call('doctor', authorization, {})) as DoctorReport,
  });
  route('GET /api/v1/admin/support-bundle', 'admin', {
    id: 'getSupportBundle',
    summary: 'What a helper needs, without secrets and without data; takes up to two minutes',
    problems: helped,
    answer: { what: 'A gzipped tar file.', raw: ['application/gzip', { type: 'string', format: 'binary' }] },
    handle: async ({ authorization, reply }) => {
      const { bytes, content } = await admin.file('support-bundle', authorization, {});
      return reply.type('application/gzip').header('content-length', bytes).send(content);
    },
  });
}

/** UNSUPPORTED: no helper runs, as without systemd. CONFLICT: it is busy, or the state does not allow it. */
const helped = ['UNSUPPORTED', 'CONFLICT', 'NOT_READY', 'CONFIG_INVALID'] as const;
