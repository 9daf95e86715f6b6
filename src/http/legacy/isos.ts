import { callFor } from '../server/invoke.ts';
import { isoRoutes } from '../routes/isos.ts';
import { listRemoteIsos, pullIso } from '../routes/remotes.ts';
import { uploadIso } from '../routes/uploads.ts';
import { diskRows } from './diskrows.ts';
import { modifiedOf, sizeText } from './disks.ts';
import type { Row } from './row.ts';

const { list, listRemote, pull, copy, remove, upload } = diskRows({
  word: 'iso',
  async list(call) {
    await callFor(call, isoRoutes.list, { params: { namespace: call.namespace } });
    return call.services.caches.isos.objects.list(call.namespace);
  },
  attributes: (iso) => ({
    iso: iso.metadata.name,
    iso_size: sizeText(iso),
    modified: modifiedOf(iso),
  }),
  routes: {
    copy: isoRoutes.copy,
    delete: isoRoutes.delete,
    listRemote: listRemoteIsos,
    pull: pullIso,
    upload: uploadIso,
  },
  messages: {
    copied: 'Successfully copied.',
    pulled: 'Successfully copied iso.',
    deleted: () => 'Successfully deleted ISO',
  },
});

/** Rows of ISOs. */
export const isoRows: readonly Row[] = [list, listRemote, pull, copy, remove, upload];
