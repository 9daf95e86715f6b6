import { actionsGroup, group } from '../../api/meta.ts';
import { images } from '../../api/resources.ts';
import { Svc3Error } from '../../errors.ts';
import { imageItem, imageState, isUsable } from '../../wire/image.ts';
import { findImage } from '../server/lookup.ts';
import { defineRoute } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { parseRange } from '../../net/range.ts';
import type { DiskDownload } from '../server/services.ts';
import { writing } from '../../usecases/writing.ts';
import { waitSeen } from '../server/visible.ts';
import { accepted, diskOf, diskRoutes } from './disks.ts';

const tag = 'Images';
const collection = '/api/v1/namespaces/{namespace}/images';

export const imageRoutes = diskRoutes({
  word: 'image',
  title: 'Image',
  tag,
  noun: 'image',
  params: schemas.imageParams,
  name: ({ image }) => image,
  resource: images,
  find: findImage,
  description: 'Debian with our tools',
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
    const image = diskOf(body.name, params.namespace, body.description, { blank: { size: body.size } });
    const created = await writing(() => caller.client.create(images, image), {
      'metadata.name': 'name',
      'spec.source.blank.size': 'size',
    });
    await waitSeen(services.caches.images.changes, created, signal);
    return { status: 202, body: imageItem(created) };
  },
});

export const downloadImage = defineRoute({
  id: 'downloadImage',
  tag,
  method: 'GET',
  path: `${collection}/{image}/download`,
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
    if (!isUsable(image))
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
