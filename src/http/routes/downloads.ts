import type * as z from 'zod';
import { actionsGroup } from '../../api/meta.ts';
import { Svc3Error } from '../../errors.ts';
import { parseRange } from '../../net/range.ts';
import { imageState, isUsable } from '../../wire/image.ts';
import * as schemas from '../../wire/schemas.ts';
import { defineRoute } from '../call/route.ts';
import type { DiskDownload } from '../call/services.ts';
import type { DiskKind } from './disks.ts';
import { imageKind } from './images.ts';
import { isoKind } from './isos.ts';

function downloadRoute<P extends z.ZodType<{ namespace: string }>>(kind: DiskKind<P>) {
  const { word, title, tag, noun, params } = kind;
  return defineRoute({
    id: `download${title}`,
    tag,
    method: 'GET',
    path: `/api/v1/namespaces/{namespace}/${word}s/{${word}}/download`,
    summary: `Stream an ${noun}'s disk.`,
    params,
    query: schemas.nothing,
    body: schemas.nothing,
    bodyKind: 'none',
    headers: schemas.downloadHeaders,
    replies: {
      200: { description: 'The disk.' },
      206: { description: 'The part of it that Range asked for.' },
      416: { description: 'Range begins after the end of the disk.', schema: schemas.status },
    },
    // One right for both kinds, as for uploads.
    permission: {
      kind: 'checked',
      group: actionsGroup,
      resource: 'images',
      subresource: 'download',
      verb: 'get',
      scope: 'namespace',
      name: word,
    },
    longRunning: true,
    async handler({ params: given, services, header, signal }) {
      const name = kind.name(given);
      const disk = await kind.find(services, { namespace: given.namespace, name });
      if (!isUsable(disk))
        throw new Svc3Error('Conflict', `${word} ${name} is ${imageState(disk)} and cannot be downloaded`);
      // The version of the disk: what has been loaded of another one is of no use (RFC 9110, If-Range).
      const etag = `"${disk.status?.digest ?? ''}"`;
      const range = (header('if-range') ?? etag) === etag ? header('range') : undefined;
      const download = await services.transfer.download({
        disk,
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
}

export const downloadImage = downloadRoute(imageKind);
export const downloadIso = downloadRoute(isoKind);

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
