import * as z from 'zod';
import type { DiskKind } from '../../controllers/image/repositorypath.ts';
import { imageName } from '../../wire/names.ts';
import * as schemas from '../../wire/schemas.ts';
import { downloadImage, downloadIso } from '../routes/downloads.ts';
import {
  appendImageUpload,
  appendIsoUpload,
  cancelImageUpload,
  cancelIsoUpload,
  getImageUpload,
  getIsoUpload,
} from '../routes/resumable.ts';
import { upload, uploadImage, uploadIso } from '../routes/uploads.ts';
import { type Call, defineRoute, type Route, type UploadTypes } from '../call/route.ts';
import { root } from './discovery.ts';
import { typedReplies, typedReply } from './schemas.ts';
import { refuseDryRun } from './selectors.ts';

/*
 * Bytes of disks through kube-apiserver. It ends a request after 60 seconds, so what is large goes in parts: up by Upload-Complete and
 * Upload-Offset, down by Range.
 */

interface Disk {
  readonly kind: DiskKind;
  readonly word: 'image' | 'iso';
}

const image: Disk = { kind: 'Image', word: 'image' };
const iso: Disk = { kind: 'ISO', word: 'iso' };

const subresource = ({ word }: Disk, name: string) =>
  `${root}/namespaces/{namespace}/${word}s/{${word}}/${name}`;

/** A row of `/api/v1` at the place of a subresource. */
function moved(route: Route, path: string, kind: string): Route {
  return {
    ...route,
    id: `aggregated ${route.id}`,
    path,
    query: z.looseObject({}),
    replies: typedReplies(route.replies, kind),
    async handler(call: Call<unknown, unknown, unknown>) {
      if (route.method !== 'GET') refuseDryRun(call.query);
      return typedReply(await route.handler({ ...call, query: {} }), kind);
    },
  };
}

const query = z.looseObject(schemas.uploadQuery.omit({ name: true }).shape);

const takes: UploadTypes = { form: schemas.uploadForm.omit({ name: true }), raw: true };

/** The name of the disk is the path's. */
function beginning<P extends z.ZodType<{ namespace: string }>>(
  route: Route,
  disk: Disk,
  { params, nameOf }: { readonly params: P; nameOf(params: z.output<P>): string },
): Route {
  const path = subresource(disk, 'upload');
  const kind = `${disk.kind}Upload`;
  return defineRoute({
    id: `aggregated ${route.id}`,
    tag: route.tag,
    method: 'POST',
    path,
    summary: route.summary,
    params,
    query,
    body: schemas.nothing,
    bodyKind: 'upload',
    headers: route.headers,
    takes,
    replies: typedReplies(route.replies, kind),
    permission: route.permission,
    longRunning: true,
    async handler(call) {
      refuseDryRun(call.query);
      const name = nameOf(call.params);
      const { description, fileName, architecture } = call.query;
      const reply = await upload(
        { ...call, query: { name, description, fileName, architecture } },
        disk.kind,
      );
      // kube-apiserver would put the address of this pod before the path; the body says the upload's name, which is enough.
      const { location: _location, ...headers } = reply.headers ?? {};
      return typedReply({ ...reply, headers }, kind);
    },
  });
}

const going = (disk: Disk) => `${subresource(disk, 'upload')}/{upload}`;

export const diskRoutes: readonly Route[] = [
  moved(downloadImage, subresource(image, 'download'), 'ImageDownload'),
  moved(downloadIso, subresource(iso, 'download'), 'ISODownload'),
  beginning(uploadImage, image, {
    params: schemas.imageParams.extend({ image: imageName }),
    nameOf: ({ image: name }) => name,
  }),
  beginning(uploadIso, iso, {
    params: schemas.isoParams.extend({ iso: imageName }),
    nameOf: ({ iso: name }) => name,
  }),
  moved(getImageUpload, going(image), 'ImageUpload'),
  moved(appendImageUpload, going(image), 'ImageUpload'),
  moved(cancelImageUpload, going(image), 'ImageUpload'),
  moved(getIsoUpload, going(iso), 'ISOUpload'),
  moved(appendIsoUpload, going(iso), 'ISOUpload'),
  moved(cancelIsoUpload, going(iso), 'ISOUpload'),
];
