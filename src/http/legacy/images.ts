import * as z from 'zod';
import { Svc3Error, isSvc3Error } from '../../errors.ts';
import { callFor, invoke } from '../server/invoke.ts';
import { downloadImage } from '../routes/downloads.ts';
import { generateImage, imageRoutes } from '../routes/images.ts';
import { listRemoteImages, pullImage } from '../routes/remotes.ts';
import { uploadImage } from '../routes/uploads.ts';
import { commitVm, saveVm } from '../routes/vmactions.ts';
import type { Reply, Route } from '../call/route.ts';
import type { ImageItem } from '../../wire/image.ts';
import { diskRows } from './diskrows.ts';
import { finished } from './finished.ts';
import { modifiedOf, shortText, sizeText } from './disks.ts';
import { imageName, texts } from './names.ts';
import { mapped, nothing, type GatewayCall, type Row } from './row.ts';
import { theVm, withVm } from './target.ts';

const { list, copy, listRemote, pull, remove, upload } = diskRows({
  word: 'image',
  async list(call) {
    await callFor(call, imageRoutes.list, { params: { namespace: call.namespace } });
    return call.services.caches.images.objects.list(call.namespace);
  },
  attributes: (image) => ({
    image: image.metadata.name,
    image_size: sizeText(image),
    modified: modifiedOf(image),
    date_added: image.metadata.creationTimestamp ?? '',
    owner: 'all',
  }),
  routes: {
    copy: imageRoutes.copy,
    delete: imageRoutes.delete,
    listRemote: listRemoteImages,
    pull: pullImage,
    upload: uploadImage,
  },
  messages: {
    copied: 'Successfully copied',
    pulled: 'Successfully copied image.',
    deleted: (name) => `Successfully deleted: ${name}`,
  },
});

/** Clients delete the VM next. */
function inTheStore(reply: Promise<Reply>): Promise<void> {
  return finished(reply, (body) => {
    const { name } = body as ImageItem;
    return `image ${name} is still being saved; GET /resources/image/list tells when it is there`;
  });
}

const target = z.object({ svc_vm_name: shortText, svc_node_name: z.string().max(253).optional() });

/** Saves or commits the VM that the request means, and waits until the image is there. */
async function kept(
  call: GatewayCall<z.output<typeof target>>,
  route: Route,
  body: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { svc_vm_name: named, svc_node_name: node } = call.body;
  const text = texts.notDeployed;
  const vm = await theVm(call, { name: named, node }, { text });
  const params = { namespace: call.namespace, vm: vm.metadata.name };
  await withVm(call, vm, { named, text }, (uid) =>
    inTheStore(invoke(call, route, { params, query: { wait: 'true' }, body: { ...body, uid } })),
  );
}

const commit = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/commit',
  successor: 'POST NS/vms/{vm}/commit',
  link: '/vms',
  body: target,
  bodyKind: 'json',
  longRunning: true,
  async handler(call) {
    await kept(call, commitVm, {});
    return { message: 'committed' };
  },
});

const save = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/save',
  successor: 'POST NS/vms/{vm}/save',
  link: '/vms',
  body: target.extend({ new_name: shortText }),
  bodyKind: 'json',
  fields: { imageName: 'new_name' },
  longRunning: true,
  async handler(call) {
    await kept(call, saveVm, { imageName: imageName(call.body.new_name, 'new_name') });
    return { message: 'saved' };
  },
});

const generate = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/image/generate',
  successor: 'POST NS/images',
  link: '/images',
  body: z.object({ file_name: shortText, file_size: z.string().min(1).max(24) }),
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

/** Rows of images, and of what makes one out of a VM. */
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
