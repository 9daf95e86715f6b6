import * as z from 'zod';
import { callFor, invoke } from '../http/invoke.ts';
import { copyIso, deleteIso, listIsos } from '../http/routes/images.ts';
import { listRemoteIsos, pullIso } from '../http/routes/remotes.ts';
import { uploadIso } from '../http/routes/uploads.ts';
import {
  byName,
  modifiedOf,
  nothing,
  pulledName,
  remoteNames,
  remoteReference,
  sizeText,
  text,
  uploaded,
} from './disks.ts';
import { imageName } from './names.ts';
import { mapped, type Row } from './row.ts';

const list = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/iso/list',
  successor: 'GET NS/isos',
  link: '/isos',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    await callFor(call, listIsos, { params: { namespace: call.namespace } });
    const isos = byName(call.services.caches.isos.objects.list(call.namespace));
    return {
      fields: {
        iso_attributes: isos.map((iso) => ({
          iso: iso.metadata.name ?? '',
          iso_size: sizeText(iso),
          modified: modifiedOf(iso),
        })),
        isos: isos.map(({ metadata }) => metadata.name ?? ''),
      },
    };
  },
});

const listRemote = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/iso/list-remote',
  successor: 'GET NS/remoteimages',
  link: '/remoteimages',
  body: nothing,
  bodyKind: 'none',
  handler: async (call) => ({ fields: { isos: await remoteNames(call, listRemoteIsos) } }),
});

const pull = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/iso/pull',
  successor: 'POST NS/remoteisos/{remoteiso}/pull',
  link: '/remoteisos',
  body: z.object({ iso: text, new_name: text.optional() }),
  bodyKind: 'json',
  fields: { name: 'new_name', remoteiso: 'iso' },
  async handler(call) {
    const { iso, new_name: newName } = call.body;
    const remoteiso = await remoteReference(call, listRemoteIsos, iso);
    await invoke(call, pullIso, {
      params: { namespace: call.namespace, remoteiso },
      body: { name: pulledName(iso, newName) },
    });
    return { message: 'Successfully copied iso.' };
  },
});

const copy = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/iso/copy',
  successor: 'POST NS/isos/{iso}/copy',
  link: '/isos',
  body: z.object({ iso: text, new_name: text }),
  bodyKind: 'json',
  fields: { name: 'new_name' },
  async handler(call) {
    const params = { namespace: call.namespace, iso: imageName(call.body.iso, 'iso') };
    await invoke(call, copyIso, { params, body: { name: imageName(call.body.new_name, 'new_name') } });
    return { message: 'Successfully copied.' };
  },
});

const remove = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/iso/delete',
  successor: 'DELETE NS/isos/{iso}',
  link: '/isos',
  body: z.object({ iso: text }),
  bodyKind: 'json',
  async handler(call) {
    await invoke(call, deleteIso, {
      params: { namespace: call.namespace, iso: imageName(call.body.iso, 'iso') },
    });
    return { message: 'Successfully deleted ISO' };
  },
});

const upload = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/iso/upload',
  successor: 'POST NS/upload/iso',
  link: '/upload/iso',
  body: nothing,
  bodyKind: 'upload',
  longRunning: true,
  handler: (call) => uploaded(call, uploadIso),
});

export const isoRows: readonly Row[] = [list, listRemote, pull, copy, remove, upload];
