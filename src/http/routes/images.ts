import { group } from '../../api/meta.ts';
import { images } from '../../api/resources.ts';
import { imageItem } from '../../wire/image.ts';
import { findImage } from '../call/lookup.ts';
import { defineRoute } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { makeBlank } from '../../usecases/newdisk.ts';
import { waitSeen } from '../call/visible.ts';
import { accepted, diskRoutes, type DiskKind } from './disks.ts';

const tag = 'Images';
const collection = '/api/v1/namespaces/{namespace}/images';

export const imageKind: DiskKind<typeof schemas.imageParams> = {
  word: 'image',
  title: 'Image',
  tag,
  noun: 'image',
  params: schemas.imageParams,
  name: ({ image }) => image,
  resource: images,
  find: findImage,
  description: 'Debian with our tools',
};

export const imageRoutes = diskRoutes(imageKind);

export const listAllImages = defineRoute({
  id: 'listAllImages',
  tag,
  method: 'GET',
  path: '/api/v1/images',
  summary: 'List the images of all namespaces.',
  params: schemas.nothing,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The images.', schema: schemas.listOf(schemas.imageItem) } },
  permission: { kind: 'checked', group, resource: 'images', verb: 'list', scope: 'cluster' },
  handler: ({ services }) => ({ json: services.caches.images.items.list(undefined) }),
});

export const generateImage = defineRoute({
  id: 'generateImage',
  tag,
  method: 'POST',
  path: collection,
  summary: 'Make an empty image.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.generateBody,
  bodyKind: 'json',
  replies: accepted,
  permission: { kind: 'native', group, resource: 'images', scope: 'namespace', verb: 'create' },
  example: { name: 'blank', size: '120G' },
  async handler({ params, body, caller, services, signal }) {
    const environment = { caller: caller.client, resource: images, field: 'image' } as const;
    const created = await makeBlank(environment, params.namespace, body);
    await waitSeen(services.caches.images.changes, created, signal);
    return { status: 202, body: imageItem(created) };
  },
});
