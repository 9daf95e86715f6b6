import { imageAnnotations, type Image, type Iso } from '../../api/image.ts';
import { imageItem } from '../../wire/image.ts';
import { invalidField, leavesOpen, Svc3Error } from '../../errors.ts';
import type { DiskKind } from '../../controllers/image/repositorypath.ts';
import { defineRoute, type Call, type ReplyOf } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import type { ResumableUploads, UploadState } from '../call/services.ts';
import { success } from '../call/status.ts';
import { waitAnnotated } from '../call/visible.ts';
import { passUnread } from '../uploads/diskbody.ts';
import type { UploadFacts, UploadTarget } from '../../usecases/uploadtarget.ts';
import { uploadPermission, uploadTag as tag } from './uploadrights.ts';

type AnyCall<P> = Call<P, unknown, unknown>;
type Appended = Parameters<ResumableUploads['append']>[2];

const one = (kind: 'image' | 'iso') =>
  `/api/v1/namespaces/{namespace}/upload/${kind}/{${kind}}/{upload}` as const;
/** Of an upload that begins with more to come. */
export const begunReplies = {
  201: { description: 'With Upload-Complete: ?0, go on at Location.', schema: schemas.uploadState },
};
/** Of an upload that is whole. */
export const takenReplies = {
  202: { description: 'It is being taken in; poll it.', schema: schemas.imageItem },
};
const kept = { 200: { description: 'How far it is.', schema: schemas.uploadState } };

/** An integer of a header; undefined where it is missing. */
function count(call: AnyCall<unknown>, name: string): number | undefined {
  const text = call.header(name.toLowerCase());
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw invalidField(name, 'must be a number of bytes');
  return Number(text);
}

/** `Upload-Complete: ?0` says that more comes in other requests; undefined where the header is missing. */
export function isComplete(call: AnyCall<unknown>): boolean | undefined {
  const text = call.header('upload-complete');
  if (text === undefined) return undefined;
  if (text !== '?0' && text !== '?1') throw invalidField('Upload-Complete', 'must be ?0 or ?1');
  return text === '?1';
}

function headersOf({ offset, size, isComplete }: UploadState): Record<string, string> {
  return {
    'upload-offset': String(offset),
    'upload-complete': isComplete ? '?1' : '?0',
    ...(size === undefined ? {} : { 'upload-length': String(size) }),
  };
}

function bodyOf({ id, offset, size, isComplete }: UploadState) {
  return { upload: id, offset, ...(size === undefined ? {} : { size }), complete: isComplete };
}

/** Begins an upload that goes on in other requests; what this one brings is its beginning. */
export async function beginUpload(
  call: AnyCall<unknown>,
  target: UploadTarget,
  said: UploadFacts,
): Promise<ReplyOf<typeof begunReplies>> {
  const { services, upload } = call;
  if (/^multipart\//i.test(upload?.contentType ?? ''))
    throw invalidField('Upload-Complete', 'a form cannot be resumed; send the raw disk');
  const size = count(call, 'Upload-Length');
  const begun = await services.uploads.begin(target, { size, length: upload?.contentLength, ...said });
  // Where nobody says how much comes, only the end of the body does.
  const isEmpty = upload?.contentLength === 0;
  const first = { ...contentOf(call), offset: 0, isLast: false };
  const state = isEmpty ? begun : await services.uploads.append(target, begun.id, first);
  const location = one(target.kind === 'ISO' ? 'iso' : 'image')
    .replace('{namespace}', target.namespace)
    .replace(/\{(image|iso)\}/, target.name)
    .replace('{upload}', begun.id);
  return { status: 201, headers: { location, ...headersOf(state) }, body: bodyOf(state) };
}

/**
 * Takes a disk in whose length nobody says, as `kubectl create --raw` and some forms bring it: as a resumable upload of one request. One that is
 * cut off is given up, since nobody knows its name.
 *
 * @param content - of a form, which fails where it is not whole; else the body of the call
 */
export async function takeUnmeasured(
  call: AnyCall<unknown>,
  target: UploadTarget,
  said: UploadFacts,
  content?: AsyncIterable<Buffer>,
): Promise<Image | Iso> {
  const { uploads } = call.services;
  const { id } = await uploads.begin(target, { size: undefined, ...said });
  const coming =
    content === undefined
      ? contentOf(call)
      : { ...senderOf(call), content, length: undefined, isWhole: () => true };
  try {
    const { taken } = await uploads.append(target, id, { ...coming, offset: 0, isLast: true });
    if (taken === undefined) throw new Svc3Error('BadRequest', 'body: ended before the disk did');
    return taken;
  } catch (error) {
    // What nobody goes on with is given up after a day.
    if (!leavesOpen(error)) await uploads.cancel(target, id).catch(() => undefined);
    if (content === undefined && call.upload !== undefined) passUnread(call.upload.stream);
    throw error;
  }
}

/** Answers an upload that its object has taken, once lists show the object, and no longer what became of an upload before. */
export async function takenReply(
  { services: { caches }, signal }: Pick<AnyCall<unknown>, 'services' | 'signal'>,
  kind: DiskKind,
  taken: Image | Iso,
): Promise<ReplyOf<typeof takenReplies>> {
  const { changes } = kind === 'ISO' ? caches.isos : caches.images;
  await waitAnnotated(changes, taken, imageAnnotations.uploadId, signal);
  return { status: 202, body: imageItem(taken) };
}

type Sender = Pick<Appended, 'identity' | 'signal'>;

const senderOf = ({ caller, signal }: AnyCall<unknown>): Sender => ({ identity: caller.key, signal });

/** The body as it comes, and whether it has come whole. */
function contentOf(call: AnyCall<unknown>): Sender & Pick<Appended, 'content' | 'length' | 'isWhole'> {
  const { upload } = call;
  if (upload === undefined) throw invalidField('body', 'is required', 'FieldValueRequired');
  const { contentLength: length } = upload;
  return {
    ...senderOf(call),
    content: upload.stream as AsyncIterable<Buffer>,
    length,
    isWhole: (received) => (length === undefined ? !upload.isCut() : received === length),
  };
}

async function proceed(
  call: AnyCall<unknown>,
  target: UploadTarget,
  id: string,
): Promise<ReplyOf<typeof append.replies>> {
  const offset = count(call, 'Upload-Offset');
  if (offset === undefined) throw invalidField('Upload-Offset', 'is required', 'FieldValueRequired');
  try {
    const bytes = { ...contentOf(call), offset, isLast: isComplete(call) ?? true };
    const { taken, ...state } = await call.services.uploads.append(target, id, bytes);
    const headers = headersOf({ ...state, isComplete: taken !== undefined });
    if (taken === undefined) return { headers, body: bodyOf(state) };
    return { ...(await takenReply(call, target.kind, taken)), headers };
  } catch (error) {
    if (call.upload !== undefined) passUnread(call.upload.stream);
    throw error;
  }
}

async function shown(
  call: AnyCall<unknown>,
  target: UploadTarget,
  id: string,
): Promise<ReplyOf<typeof kept>> {
  const state = await call.services.uploads.state(target, id);
  return { headers: headersOf(state), body: bodyOf(state) };
}

async function cancelled(
  call: AnyCall<unknown>,
  target: UploadTarget,
  id: string,
): Promise<ReplyOf<typeof cancel.replies>> {
  await call.services.uploads.cancel(target, id);
  return { body: success(`Successfully cancelled upload ${id}`) };
}

interface Params {
  readonly namespace: string;
  readonly upload: string;
}

const targetOf = (kind: DiskKind, { namespace }: Params, name: string): UploadTarget => ({
  kind,
  namespace,
  name,
});

const read = {
  tag,
  method: 'GET',
  summary: 'How far a resumable upload is; HEAD says it in its headers only.',
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: kept,
  permission: uploadPermission,
} as const;
const append = {
  tag,
  method: 'PATCH',
  summary: 'Go on with a resumable upload at Upload-Offset; Upload-Complete: ?0 where more comes later.',
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'upload',
  headers: schemas.appendHeaders,
  takes: { raw: true },
  replies: { ...kept, ...takenReplies },
  permission: uploadPermission,
  longRunning: true,
} as const;
const cancel = {
  tag,
  method: 'DELETE',
  summary: 'Give a resumable upload up.',
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'It is gone.', schema: schemas.status } },
  permission: uploadPermission,
} as const;

const imagePath = { path: one('image'), params: schemas.imageUploadParams } as const;
const isoPath = { path: one('iso'), params: schemas.isoUploadParams } as const;

export const getImageUpload = defineRoute({
  id: 'getImageUpload',
  ...imagePath,
  ...read,
  handler: (call) => shown(call, targetOf('Image', call.params, call.params.image), call.params.upload),
});

export const appendImageUpload = defineRoute({
  id: 'appendImageUpload',
  ...imagePath,
  ...append,
  handler: (call) => proceed(call, targetOf('Image', call.params, call.params.image), call.params.upload),
});

export const cancelImageUpload = defineRoute({
  id: 'cancelImageUpload',
  ...imagePath,
  ...cancel,
  handler: (call) => cancelled(call, targetOf('Image', call.params, call.params.image), call.params.upload),
});

export const getIsoUpload = defineRoute({
  id: 'getIsoUpload',
  ...isoPath,
  ...read,
  handler: (call) => shown(call, targetOf('ISO', call.params, call.params.iso), call.params.upload),
});

export const appendIsoUpload = defineRoute({
  id: 'appendIsoUpload',
  ...isoPath,
  ...append,
  handler: (call) => proceed(call, targetOf('ISO', call.params, call.params.iso), call.params.upload),
});

export const cancelIsoUpload = defineRoute({
  id: 'cancelIsoUpload',
  ...isoPath,
  ...cancel,
  handler: (call) => cancelled(call, targetOf('ISO', call.params, call.params.iso), call.params.upload),
});
