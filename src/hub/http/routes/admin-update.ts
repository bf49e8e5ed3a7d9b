/** The update of the other slot of the card. */
import { uploadHash } from '../../../admin/verbs.ts';
import type { UpdateBundle, UpdateState } from '../../../shared/gen/http.ts';
import { UploadBody } from '../schemas/admin.ts';
import { helped } from './admin.ts';
import { received, uploadProblems, uploadRules, uploadStream } from './admin-upload.ts';
import type { RouteParts, Routes } from './route.ts';

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
    answer: { status: 204, what: 'It restarts now.' },
    handle: ({ authorization }) => admin.call('update.try', authorization, {}),
  });
}
