/** Uploads for the helper, and the work of its units on them. */
import { MAX_UPLOAD_BYTES, type UploadVerbName, uploadSize } from '../../../admin/verbs.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { AdminClient } from '../admin-client.ts';
import { mayArriveSlowly } from '../connections.ts';
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

export const uploadStream: StreamedBody = {
  types: ['application/octet-stream'],
  maxBytes: MAX_UPLOAD_BYTES,
  limit: 'this route',
};

export const uploadRules =
  'At most 400 MiB, with Content-Length; within an hour, and never a minute without a byte. The box keeps the file for 30 minutes, until the next upload or restart.';
export const uploadProblems = [...helped, 'STORAGE_FULL', 'STORAGE_FAILED'] as const;

export async function received(
  admin: AdminClient,
  verb: UploadVerbName,
  { request: { raw, headers }, authorization, gone }: Pick<Call, 'request' | 'authorization' | 'gone'>,
): Promise<unknown> {
  const bytes = Number(headers['content-length']);
  if (!(bytes > 0)) throw new LinesideError('INVALID_ARGUMENT', 'an upload has a Content-Length of 1 or more');
  mayArriveSlowly(raw);
  return admin.upload(verb, authorization, bytes, raw, gone);
}
