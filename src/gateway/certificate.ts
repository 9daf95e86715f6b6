import * as z from 'zod';
import { invoke } from '../http/invoke.ts';
import { uploadCertificate } from '../http/routes/uploads.ts';
import { mapped, type Row } from './row.ts';

const set = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/cert/set',
  successor: 'POST /api/v1/upload/cert',
  link: '/api/v1/upload/cert',
  body: z.object({}),
  bodyKind: 'upload',
  async handler(call) {
    await invoke(call, uploadCertificate, { params: {} });
    return { message: 'Successfully set certificate' };
  },
});

export const certificateRows: readonly Row[] = [set];
