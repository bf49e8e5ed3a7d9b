/** The restore of a backup that is uploaded. */
import { restoreArgs } from '../../../admin/verbs.ts';
import type { BackupContents } from '../../../shared/gen/http.ts';
import { UploadBody } from '../schemas/admin.ts';
import { helped } from './admin.ts';
import { received, uploadProblems, uploadRules, uploadStream } from './admin-upload.ts';
import type { RouteParts, Routes } from './route.ts';

export function adminRestoreRoutes(routes: Routes, { admin }: RouteParts): void {
  const route = routes('administration');
  route('PUT /api/v1/admin/restore/backup', 'admin', {
    id: 'uploadBackup',
    summary: 'Upload a backup, verify it, and see what is in it',
    description: uploadRules,
    streams: uploadStream,
    body: UploadBody,
    problems: uploadProblems,
    answer: { what: 'What is in it. Nothing was changed.', of: 'BackupContents' },
    handle: (call) => received(admin, 'restore.upload', call) as Promise<BackupContents>,
  });
  route('POST /api/v1/admin/restore', 'admin', {
    id: 'restoreBackup',
    summary: 'Put the uploaded backup in the place of what the box has',
    description:
      'Databases, state of the line, configuration and certificates are replaced; tokens, keys and secrets stay those of the box, whatever the backup has. The service stops and starts again: see GET /api/v1/admin/work afterwards.',
    body: restoreArgs,
    problems: helped,
    answer: { status: 204, what: 'It has begun.' },
    handle: ({ authorization, body }) => admin.call('restore.begin', authorization, body),
  });
}
