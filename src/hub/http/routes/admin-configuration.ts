/** The configuration file: root's, so the helper reads and changes it. */
import type { Configuration, ConfigurationChange } from '../../../shared/gen/http.ts';
import { ConfigurationBody, ConfigurationHash } from '../schemas/admin.ts';
import { helped } from './admin.ts';
import type { RouteParts, Routes } from './route.ts';

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
