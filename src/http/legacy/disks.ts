import * as z from 'zod';
import type { Image, Iso } from '../../api/image.ts';
import { imageItem, type ImageItem } from '../../wire/image.ts';
import { callFor, inNameOf } from '../server/invoke.ts';
import type { listRemoteImages } from '../routes/remotes.ts';
import { upload, type uploadImage } from '../routes/uploads.ts';
import { imageName } from './names.ts';
import { referenceOf } from './remotereference.ts';
import type { Reply } from '../call/route.ts';
import type { RemoteImage } from '../call/services.ts';
import type { Answer, GatewayCall } from './row.ts';

/** A name or reference in a request of 2.4.x. */
export const shortText = z.string().min(1).max(512);

/** RFC 3339: when the last commit got into the store; where there is none, or another is under way or failed, when the first version did; else when the object was made. */
export function modifiedOf({ metadata, status }: Image | Iso): string {
  const stored = (status?.conditions ?? []).filter(
    ({ type, status }) => (type === 'Ready' || type === 'Committed') && status === 'True',
  );
  const times = stored.map(({ lastTransitionTime }) => lastTransitionTime);
  return times.toSorted().at(-1) ?? metadata.creationTimestamp ?? '';
}

/** What 2.4.x did not say, since its answers came when the work was done: whether a disk is there, and what went wrong. */
export function stateAttributes(disk: Image | Iso): { state: ImageItem['state']; error_message?: string } {
  const { state, errorMessage } = imageItem(disk);
  return { state, ...(errorMessage === undefined ? {} : { error_message: errorMessage }) };
}

/** Sizes without the binary `i`, as 2.4.x shows them: `90G`. */
export function sizeText(disk: Image | Iso): string {
  return (disk.status?.size ?? '0').replace('i', '');
}

/** What the remote registries hold; asks for the right to list it first. */
async function remoteItems(
  call: GatewayCall<unknown>,
  route: typeof listRemoteImages,
): Promise<readonly RemoteImage[]> {
  const inner = await callFor(call, route, { params: { namespace: call.namespace } });
  const { items, incomplete } = await inner.services.remotes.list(call.namespace, call.signal);
  for (const sentence of incomplete) inner.warn(sentence);
  return items;
}

/** References in the remote registries; asks for the right to list them first. */
export async function remoteNames(
  call: GatewayCall<unknown>,
  route: typeof listRemoteImages,
): Promise<string[]> {
  return (await remoteItems(call, route)).map(({ name }) => name);
}

/** The reference a 2.4.x name of a remote image or ISO means: itself, or the one whose last part it is. */
export async function remoteReference(
  call: GatewayCall<unknown>,
  route: typeof listRemoteImages,
  { word, name }: { readonly word: 'image' | 'iso'; readonly name: string },
): Promise<string> {
  return name.includes('/') ? name : referenceOf(await remoteItems(call, route), word, name);
}

/** The name that a pulled disk gets: the one asked for, else the remote one where that can be a name; else the store's choice. */
export function pulledName(remote: string, newName: string | undefined): string | undefined {
  const name = newName ?? (remote.includes('/') ? undefined : remote);
  return name === undefined ? undefined : imageName(name, 'new_name');
}

/** Takes a disk in as the route does, under the name that the other rows know the file by, and answers in the words of 2.4.x. */
export async function uploaded(
  call: GatewayCall<unknown>,
  route: typeof uploadImage,
  kind: 'Image' | 'ISO',
): Promise<Answer> {
  const params = { namespace: call.namespace };
  const inner = await callFor(call, route, { params });
  const { body }: Reply = await inNameOf(call, route, params, () =>
    upload(inner, kind, (fileName) => imageName(fileName.replaceAll('/', '-'), 'file')),
  );
  return { message: `Successfully uploaded ${(body as { name?: string } | undefined)?.name ?? ''}` };
}
