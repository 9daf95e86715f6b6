import type { Image } from '../../api/image.ts';
import { actionsGroup, group } from '../../api/meta.ts';
import { images } from '../../api/resources.ts';
import { Svc3Error } from '../../errors.ts';
import { imageItem, imageState } from '../../items/image.ts';
import { findImage } from '../lookup.ts';
import { defineRoute } from '../route.ts';
import * as schemas from '../schemas.ts';
import { parseRange } from '../../runner/range.ts';
import type { DiskDownload } from '../services.ts';
import { success } from '../status.ts';
import { writing } from '../upstream.ts';
import { waitGone, waitSeen } from '../visible.ts';
import { refuseWhileUsed } from './diskusers.ts';

const tag = 'Images';
const collection = '/api/v1/namespaces/{namespace}/images';
const one = `${collection}/{image}`;
const permission = { group, resource: 'images', scope: 'namespace' } as const;
const accepted = { 202: { description: 'It is being made; poll it.', schema: schemas.imageItem } };

export const listImages = defineRoute({
  id: 'listImages',
  tag,
  method: 'GET',
  path: collection,
  summary: 'List the images of the namespace.',
  params: schemas.namespaceParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The images.', schema: schemas.listOf(schemas.imageItem) } },
  permission: { kind: 'checked', ...permission, verb: 'list' },
  handler: ({ params, services }) => ({ json: services.caches.images.items.list(params.namespace) }),
});

export const getImage = defineRoute({
  id: 'getImage',
  tag,
  method: 'GET',
  path: one,
  summary: 'Show one image.',
  params: schemas.imageParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The image.', schema: schemas.imageItem } },
  permission: { kind: 'checked', ...permission, verb: 'get', name: 'image' },
  async handler({ params, services }) {
    return {
      body: imageItem(await findImage(services, { namespace: params.namespace, name: params.image })),
    };
  },
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
  permission: { kind: 'native', ...permission, verb: 'create' },
  example: { name: 'blank', size: '120G' },
  async handler({ params, body, caller, services, signal }) {
    const image = imageOf(body.name, params.namespace, body.description, { blank: { size: body.size } });
    const created = await writing(() => caller.client.create(images, image), {
      'metadata.name': 'name',
      'spec.source.blank.size': 'size',
    });
    await waitSeen(services.caches.images.changes, created, signal);
    return { status: 202, body: imageItem(created) };
  },
});

export function imageOf(
  name: string,
  namespace: string,
  description: string | undefined,
  source: Image['spec']['source'],
): Image {
  return {
    metadata: { name, namespace },
    spec: { ...(description === undefined ? {} : { description }), source },
  };
}

export const copyImage = defineRoute({
  id: 'copyImage',
  tag,
  method: 'POST',
  path: `${one}/copy`,
  summary: 'Copy an image.',
  params: schemas.imageParams,
  query: schemas.nothing,
  body: schemas.copyBody,
  bodyKind: 'json',
  replies: accepted,
  permission: { kind: 'native', ...permission, verb: 'create' },
  example: { name: 'copy' },
  async handler({ params, body, caller, services, signal }) {
    await findImage(services, { namespace: params.namespace, name: params.image });
    const image = imageOf(body.name, params.namespace, body.description, { image: { name: params.image } });
    const created = await writing(() => caller.client.create(images, image), { 'metadata.name': 'name' });
    await waitSeen(services.caches.images.changes, created, signal);
    return { status: 202, body: imageItem(created) };
  },
});

export const describeImage = defineRoute({
  id: 'describeImage',
  tag,
  method: 'POST',
  path: `${one}/description`,
  summary: "Set an image's description.",
  params: schemas.imageParams,
  query: schemas.nothing,
  body: schemas.descriptionBody,
  bodyKind: 'json',
  replies: { 200: { description: 'The image.', schema: schemas.imageItem } },
  permission: { kind: 'native', ...permission, verb: 'patch', name: 'image' },
  example: { description: 'Debian with our tools' },
  async handler({ params, body, caller }) {
    const patched = await caller.client.patch(
      images,
      { name: params.image, namespace: params.namespace },
      { type: 'merge', body: { spec: { description: body.description } } },
      { fieldManager: 'svc3-api' },
    );
    return { body: imageItem(patched) };
  },
});

export const deleteImage = defineRoute({
  id: 'deleteImage',
  tag,
  method: 'DELETE',
  path: one,
  summary: 'Delete an image that no VM uses.',
  params: schemas.imageParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The image is gone.', schema: schemas.status },
    409: { description: 'VMs use it.', schema: schemas.status },
  },
  permission: { kind: 'native', ...permission, verb: 'delete', name: 'image' },
  async handler({ params, caller, services, signal }) {
    const key = { namespace: params.namespace, name: params.image };
    const image = await findImage(services, key);
    refuseWhileUsed(services, image, 'image');
    await caller.client.delete(
      images,
      key,
      image.metadata.uid === undefined ? {} : { uid: image.metadata.uid },
    );
    await waitGone(services.caches.images.changes, key, signal);
    return { body: success(`Successfully deleted image ${params.image}`) };
  },
});

export const downloadImage = defineRoute({
  id: 'downloadImage',
  tag,
  method: 'GET',
  path: `${one}/download`,
  summary: "Stream an image's disk.",
  params: schemas.imageParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The disk.' },
    206: { description: 'The part of it that Range asked for.' },
    416: { description: 'Range begins after the end of the disk.', schema: schemas.status },
  },
  permission: {
    kind: 'checked',
    group: actionsGroup,
    resource: 'images',
    subresource: 'download',
    verb: 'get',
    scope: 'namespace',
    name: 'image',
  },
  longRunning: true,
  async handler({ params, services, header, signal }) {
    const image = await findImage(services, { namespace: params.namespace, name: params.image });
    if (imageState(image) !== 'Ready')
      throw new Svc3Error(
        'Conflict',
        `image ${params.image} is ${imageState(image)} and cannot be downloaded`,
      );
    // The version of the disk: what has been loaded of another one is of no use (RFC 9110, If-Range).
    const etag = `"${image.status?.digest ?? ''}"`;
    const range = (header('if-range') ?? etag) === etag ? header('range') : undefined;
    const download = await services.transfer.download({
      image,
      signal,
      ...(range === undefined ? {} : { range: (size) => parseRange(range, size) }),
    });
    return {
      status: download.part === undefined ? 200 : 206,
      stream: download.stream,
      headers: { etag, 'accept-ranges': 'bytes', ...downloadHeaders(download) },
    };
  },
});

function downloadHeaders({ size, fileName, digest, part }: DiskDownload): Record<string, string> {
  const length = part === undefined ? size : part.end - part.start + 1;
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="${fileName.replaceAll(/[^\w.-]/g, '_')}"`,
    'content-length': String(length),
    ...(digest === undefined ? {} : { 'repr-digest': reprDigest(digest) }),
    ...(part === undefined ? {} : { 'content-range': `bytes ${part.start}-${part.end}/${size}` }),
  };
}

/** RFC 9530: of the whole disk, also where a part of it is sent. */
function reprDigest(digest: string): string {
  return `sha-256=:${Buffer.from(digest.replace('sha256:', ''), 'hex').toString('base64')}:`;
}
