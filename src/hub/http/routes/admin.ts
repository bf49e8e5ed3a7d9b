/**
 * Administration: what root does for an administrator, through the helper. The caller's own token goes along; the helper checks it.
 * The routes that take an upload: admin-upload.ts.
 */

import type { FastifyReply, FastifyRequest } from 'fastify';
import { tokenSpec } from '../../../admin/verbs.ts';
import type {
  AddedToken,
  AdministrationAction,
  Configuration,
  ConfigurationChange,
  DoctorReport,
  TokenEntry,
} from '../../../shared/gen/http.ts';
import { cursorAfter, positionOf } from '../../outbox/paging.ts';
import type { SentFile } from '../admin-client.ts';
import { mayBeSlow } from '../connections.ts';
import { ActionsQuery, BackupQuery, ConfigurationBody, ConfigurationHash } from '../schemas/admin.ts';
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
    answer: { what: 'A gzipped tar file.', raw: ['application/gzip', binary] },
    handle: (call) =>
      sendFile(call, 'application/gzip', () => admin.file('support-bundle', call.authorization, {}, call.gone)),
  });
  route('GET /api/v1/admin/backup', 'admin', {
    id: 'getBackup',
    summary: 'A backup without private keys and secrets; takes some minutes if the log is large',
    description:
      'Made whole on the box first: it needs room for both databases plus the larger one again, and is refused with STORAGE_FULL if there is less. Nothing of it stays on the box.',
    query: BackupQuery,
    problems: [...helped, 'STORAGE_FULL', 'STORAGE_DAMAGED'],
    answer: { what: 'A file for `lineside restore`.', raw: ['application/x-tar', binary] },
    handle: (call) => {
      const args = { log: call.query.log !== 'false' };
      return sendFile(call, 'application/x-tar', () => admin.file('backup', call.authorization, args, call.gone));
    },
  });
}

/** Names the list in its cursors. */
const actions = 'actions';

/** The audit, which the helper keeps. */
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

/** The configuration file: root's, so the helper reads and changes it. */
export function adminConfigurationRoutes(routes: Routes, { admin }: RouteParts): void {
  const route = routes('administration');
  const changing = [...helped, 'STALE_VERSION', 'TOO_LARGE'] as const;
  const change = { what: 'The effect of the text.', of: 'ConfigurationChange' } as const;
  route('GET /api/v1/admin/configuration', 'admin', {
    id: 'getConfiguration',
    summary: 'Read the configuration file, without what may be a secret',
    problems: helped,
    answer: { what: 'The file.', of: 'Configuration' },
    handle: async ({ authorization }) => (await admin.call('configuration.read', authorization, {})) as Configuration,
  });
  route('POST /api/v1/admin/configuration/check', 'admin', {
    id: 'checkConfiguration',
    summary: 'Check a text in place of the configuration file; changes nothing',
    body: ConfigurationBody,
    problems: changing,
    answer: change,
    handle: async ({ authorization, body }) =>
      (await admin.call('configuration.check', authorization, body)) as ConfigurationChange,
  });
  route('PUT /api/v1/admin/configuration', 'admin', {
    id: 'changeConfiguration',
    summary: 'Replace the configuration file, and reload the service',
    description:
      'As a whole, or not at all: 412 if the file was changed since it was read, 422 if the text has a fault. The file of before is kept. Keys that name files, directories or sockets keep their values: they are changed on the box, with `lineside config change`.',
    body: ConfigurationBody,
    problems: [...changing, 'STORAGE_FULL', 'STORAGE_FAILED'],
    answer: change,
    handle: async ({ authorization, body }) =>
      (await admin.call('configuration.change', authorization, body)) as ConfigurationChange,
  });
  route('POST /api/v1/admin/configuration/undo', 'admin', {
    id: 'undoConfiguration',
    summary: 'Put the configuration file of before the last change back, and reload the service',
    body: ConfigurationHash,
    problems: [...changing, 'NOT_FOUND', 'STORAGE_FULL', 'STORAGE_FAILED'],
    answer: change,
    handle: async ({ authorization, body }) =>
      (await admin.call('configuration.undo', authorization, body)) as ConfigurationChange,
  });
}

const binary = { type: 'string', format: 'binary' } as const;

interface FileCall {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

async function sendFile(
  { request, reply }: FileCall,
  type: string,
  make: () => Promise<SentFile>,
): Promise<FastifyReply> {
  if (request.method === 'HEAD') return reply.type(type).send('');
  const { bytes, content } = await make();
  mayBeSlow(reply.raw);
  return reply.type(type).header('content-length', bytes).send(content);
}

/** UNSUPPORTED: no helper runs, as without systemd. CONFLICT: it is busy, or the state does not allow it. */
export const helped = ['UNSUPPORTED', 'CONFLICT', 'NOT_READY', 'CONFIG_INVALID'] as const;
