import { invoke } from '../server/invoke.ts';
import { uploadCertificate } from '../routes/uploads.ts';
import { mapped, nothing, type Row } from './row.ts';

const set = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/cert/set',
  successor: 'POST /api/v1/upload/cert',
  link: '/api/v1/upload/cert',
  body: nothing,
  bodyKind: 'upload',
  async handler(call) {
    await invoke(call, uploadCertificate, { params: {} });
    return { message: 'Successfully set certificate' };
  },
});

/** The row of the serving certificate. */
export const certificateRows: readonly Row[] = [set];
