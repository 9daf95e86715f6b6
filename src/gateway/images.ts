import * as z from 'zod';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import { callFor, invoke } from '../http/invoke.ts';
import { copyImage, deleteImage, downloadImage, generateImage, listImages } from '../http/routes/images.ts';
import { listRemoteImages, pullImage } from '../http/routes/remotes.ts';
import { uploadImage } from '../http/routes/uploads.ts';
import { commitVm, saveVm } from '../http/routes/vmactions.ts';
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
import { imageName, texts, theVm } from './names.ts';
import { mapped, type Row } from './row.ts';

const list = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/image/list',
  successor: 'GET NS/images',
  link: '/images',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    await callFor(call, listImages, { params: { namespace: call.namespace } });
    const images = byName(call.services.caches.images.objects.list(call.namespace));
    return {
      fields: {
        image_attributes: images.map((image) => ({
          image: image.metadata.name ?? '',
          image_size: sizeText(image),
          modified: modifiedOf(image),
          date_added: image.metadata.creationTimestamp ?? '',
          owner: 'all',
        })),
        images: images.map(({ metadata }) => metadata.name ?? ''),
      },
    };
  },
});

const copy = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/copy',
  successor: 'POST NS/images/{image}/copy',
  link: '/images',
  body: z.object({ image: text, new_name: text }),
  bodyKind: 'json',
  fields: { name: 'new_name' },
  async handler(call) {
    const params = { namespace: call.namespace, image: imageName(call.body.image, 'image') };
    await invoke(call, copyImage, { params, body: { name: imageName(call.body.new_name, 'new_name') } });
    return { message: 'Successfully copied' };
  },
});

const listRemote = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/image/list-remote',
  successor: 'GET NS/remoteimages',
  link: '/remoteimages',
  body: nothing,
  bodyKind: 'none',
  handler: async (call) => ({ fields: { images: await remoteNames(call, listRemoteImages) } }),
});

const pull = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/pull',
  successor: 'POST NS/remoteimages/{remoteimage}/pull',
  link: '/remoteimages',
  body: z.object({ image: text, new_name: text.optional() }),
  bodyKind: 'json',
  fields: { name: 'new_name', remoteimage: 'image' },
  async handler(call) {
    const { image, new_name: newName } = call.body;
    const remoteimage = await remoteReference(call, listRemoteImages, image);
    await invoke(call, pullImage, {
      params: { namespace: call.namespace, remoteimage },
      body: { name: pulledName(image, newName) },
    });
    return { message: 'Successfully copied image.' };
  },
});

const remove = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/delete',
  successor: 'DELETE NS/images/{image}',
  link: '/images',
  body: z.object({ image: text }),
  bodyKind: 'json',
  async handler(call) {
    const { image } = call.body;
    await invoke(call, deleteImage, {
      params: { namespace: call.namespace, image: imageName(image, 'image') },
    });
    return { message: `Successfully deleted: ${image}` };
  },
});

const commit = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/commit',
  successor: 'POST NS/vms/{vm}/commit',
  link: '/vms',
  body: z.object({ svc_vm_name: text, svc_node_name: z.string().max(253).optional() }),
  bodyKind: 'json',
  async handler(call) {
    const vm = await theVm(call, call.body.svc_vm_name, call.body.svc_node_name, texts.notDeployed);
    await invoke(call, commitVm, {
      params: { namespace: call.namespace, vm: vm.metadata.name ?? '' },
      body: {},
    });
    return { message: 'committed' };
  },
});

const save = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/save',
  successor: 'POST NS/vms/{vm}/save',
  link: '/vms',
  body: z.object({ svc_vm_name: text, svc_node_name: z.string().max(253).optional(), new_name: text }),
  bodyKind: 'json',
  fields: { imageName: 'new_name' },
  async handler(call) {
    const vm = await theVm(call, call.body.svc_vm_name, call.body.svc_node_name, texts.notDeployed);
    const params = { namespace: call.namespace, vm: vm.metadata.name ?? '' };
    await invoke(call, saveVm, { params, body: { imageName: imageName(call.body.new_name, 'new_name') } });
    return { message: 'saved' };
  },
});

const generate = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/generate',
  successor: 'POST NS/images',
  link: '/images',
  body: z.object({ file_name: text, file_size: z.string().min(1).max(24) }),
  bodyKind: 'json',
  fields: { name: 'file_name', size: 'file_size' },
  async handler(call) {
    const { file_name: name, file_size: size } = call.body;
    await invoke(call, generateImage, {
      params: { namespace: call.namespace },
      body: {
        name: imageName(name, 'file_name'),
        size: size.replace(/([kmgtp])b?$/i, (_, unit: string) =>
          unit.toLowerCase() === 'k' ? 'k' : unit.toUpperCase(),
        ),
      },
    });
    return { message: 'Successfully generated image' };
  },
});

const upload = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/upload',
  successor: 'POST NS/upload/image',
  link: '/upload/image',
  body: nothing,
  bodyKind: 'upload',
  longRunning: true,
  handler: (call) => uploaded(call, uploadImage),
});

const download = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/image/download/{image}',
  successor: 'GET NS/images/{image}/download',
  link: '/images/{image}/download',
  body: nothing,
  bodyKind: 'none',
  longRunning: true,
  async handler(call) {
    const { image = '' } = call.params;
    try {
      return {
        reply: await invoke(call, downloadImage, {
          params: { namespace: call.namespace, image: imageName(image, 'image') },
        }),
      };
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound')) throw error;
      throw new Svc3Error('NotFound', `image file not found: ${image}`, { cause: error });
    }
  },
});

export const imageRows: readonly Row[] = [
  list,
  copy,
  listRemote,
  pull,
  remove,
  commit,
  save,
  generate,
  upload,
  download,
];
