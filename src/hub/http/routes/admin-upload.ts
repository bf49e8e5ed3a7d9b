/** Uploads for the helper, and the work of its units on them: an update, a restore. */
import { MAX_UPLOAD_BYTES, restoreArgs, type UploadVerbName, uploadHash, uploadSize } from '../../../admin/verbs.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { BackupContents, UpdateBundle, UpdateState } from '../../../shared/gen/http.ts';
import type { AdminClient } from '../admin-client.ts';
import { mayArriveSlowly } from '../connections.ts';
import { UploadBody } from '../schemas/admin.ts';
import { helped } from './admin.ts';
import type { Call, RouteParts, Routes, StreamedBody } from './route.ts';

export function adminUploadRoutes(routes: Routes, { admin }: RouteParts): void {
  const route = routes('administration');
  route('GET /api/v1/admin/work', 'admin', {
    id: 'getAdminWork',
    summary: 'How far an update or a restore is that was begun over HTTP, and how the last one ended',
    answer: { what: 'The work.', of: 'AdminWork' },
    handle: () => admin.work(),
  });
  route('POST /api/v1/admin/uploads', 'admin', {
    id: 'checkUpload',
    summary: 'Ask whether the box takes a file of this size now',
    description:
      'STORAGE_FULL if less than twice its size is free; CONFLICT during another upload. Nothing is reserved.',
    body: uploadSize,
    problems: [...helped, 'STORAGE_FULL'],
    answer: { status: 204, what: 'It does.' },
    handle: ({ authorization, body }) => admin.call('upload.check', authorization, body),
  });
}

/** The update of the other slot of the card. */
export function adminUpdateRoutes(routes: Routes, { admin }: RouteParts): void {
  const route = routes('administration');
  route('GET /api/v1/admin/update', 'admin', {
    id: 'getUpdateState',
    summary: 'Which slot of the card runs, and whether an update is on trial',
    description: 'UNSUPPORTED on a machine without slots: the package is updated by apt.',
    problems: helped,
    answer: { what: 'The slots.', of: 'UpdateState' },
    handle: async ({ authorization }) => (await admin.call('update.state', authorization, {})) as UpdateState,
  });
  route('PUT /api/v1/admin/update/bundle', 'admin', {
    id: 'uploadUpdate',
    summary: 'Upload a signed bundle, and check it as an install does',
    description: `${uploadRules} PERMISSION_DENIED if the signature is not of the key that the box trusts.`,
    streams: uploadStream,
    body: UploadBody,
    problems: uploadProblems,
    answer: { what: 'It can be installed.', of: 'UpdateBundle' },
    handle: (call) => received(admin, 'update.upload', call) as Promise<UpdateBundle>,
  });
  route('POST /api/v1/admin/update/install', 'admin', {
    id: 'installUpdate',
    summary: 'Install the uploaded bundle into the slot that does not run',
    description: 'It takes some minutes, and goes on if the caller disconnects: see GET /api/v1/admin/work.',
    body: uploadHash,
    problems: helped,
    answer: { status: 204, what: 'It has begun.' },
    handle: ({ authorization, body }) => admin.call('update.install', authorization, body),
  });
  route('POST /api/v1/admin/update/try', 'admin', {
    id: 'tryUpdate',
    summary: 'Restart the box with the update that was installed',
    description:
      'If it does not become healthy, the box returns to the slot that ran before. CONFLICT if no update waits.',
    problems: helped,
    answer: { status: 204, what: 'It restarts in 5 s.' },
    handle: ({ authorization }) => admin.call('update.try', authorization, {}),
  });
}

/** The restore of a backup. */
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

const uploadStream: StreamedBody = {
  types: ['application/octet-stream'],
  maxBytes: MAX_UPLOAD_BYTES,
  limit: 'this route',
};

const uploadRules =
  'At most 400 MiB, with Content-Length; within an hour, and never a minute without a byte. The box keeps the file for 30 minutes, until the next upload or restart.';
const uploadProblems = [...helped, 'STORAGE_FULL', 'STORAGE_FAILED'] as const;

async function received(
  admin: AdminClient,
  verb: UploadVerbName,
  { request: { raw, headers }, authorization, gone }: Pick<Call, 'request' | 'authorization' | 'gone'>,
): Promise<unknown> {
  const bytes = Number(headers['content-length']);
  if (!(bytes > 0)) throw new LinesideError('INVALID_ARGUMENT', 'an upload has a Content-Length of 1 or more');
  mayArriveSlowly(raw);
  return admin.upload(verb, authorization, bytes, raw, gone);
}
