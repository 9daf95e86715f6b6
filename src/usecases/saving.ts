import type { Image } from '../api/image.ts';
import { group } from '../api/meta.ts';
import { isTerminating } from '../api/owner.ts';
import { images } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import {
  committedImage,
  savedImage,
  savingOf,
  type CommitRequest,
  type SaveRequest,
} from '../wire/saving.ts';
import type { Waiter } from './waiter.ts';
import { writing } from './writing.ts';

/** Whose right it is to write images. */
export interface SavingEnvironment {
  readonly writer: KubeClient;
}

/**
 * Makes the Image that the operator fills with the disk of this very VM, and its memory where that is asked for.
 *
 * @param vm - as kube-apiserver has it: another one of its name is not saved in its place
 * @throws Svc3Error Conflict where the VM has no disk or memory to save, or is another than the request means; AlreadyExists of the image
 */
export function save({ writer }: SavingEnvironment, vm: Vm, request: SaveRequest): Promise<Image> {
  const image = savedImage(vm, request);
  return writing(() => writer.create(images, image), { 'metadata.name': 'imageName' });
}

/**
 * Asks for the disk of this very VM as the new content of the Image it runs from.
 *
 * @param vm - as kube-apiserver has it: another one of its name is not committed in its place
 * @throws Svc3Error Conflict where the VM has no disk, runs from no Image or from one that is being deleted, or is another than the request means; NotFound of the Image
 */
export async function commit(
  { writer }: SavingEnvironment,
  vm: Vm,
  request: CommitRequest | undefined,
): Promise<Image> {
  const { name, body } = committedImage(vm, request);
  const key = { name, namespace: vm.metadata.namespace };
  const asked = await writing(() => writer.patch(images, key, { type: 'merge', body }));
  if (!isTerminating(asked)) return asked;
  // Nothing comes of it, and the deletion of the VM does not wait for it.
  throw new Svc3Error('Conflict', `image ${name} is being deleted: a commit comes too late`, {
    details: { group, kind: 'images', name },
  });
}

/** As long as the deletion of a VM waits for the same, unless the installation says otherwise. */
const timeoutMs = 3_600_000;

/**
 * Waits until the disk is in the store, an hour at most.
 *
 * @param asked - the Image as the save or commit wrote it
 * @returns undefined where it takes longer.
 * @throws Svc3Error when it has failed, in the Image's words
 */
export async function untilSaved(wait: Waiter, asked: Image): Promise<Image | undefined> {
  const waited = await wait(images, asked, {
    timeoutMs,
    isNew: true,
    done: (image) => savingOf(asked, image).kind !== 'underWay',
  });
  if (waited.kind === 'timeout' || waited.kind === 'interrupted') return undefined;
  const image = waited.kind === 'done' ? waited.object : undefined;
  const outcome = savingOf(asked, image);
  if (outcome.kind === 'failed') throw outcome.error;
  return image;
}
