import { randomUUID } from 'node:crypto';
import { imageAnnotations, type Image } from '../api/image.ts';
import { group } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import { commitTarget } from '../api/committarget.ts';
import { memoryRefusal } from '../api/memory.ts';
import { vms } from '../api/resources.ts';
import { imageItem } from './image.ts';
import { requireMeant } from './meant.ts';
import { hasDisk, requireStaying, vmState } from './vm.ts';
import type { Submitted } from '../api/object.ts';

export interface CommitRequest {
  readonly description?: string | undefined;
  /** UID of the VM that is meant: another one of its name is refused. */
  readonly uid?: string | undefined;
}

export interface SaveRequest extends CommitRequest {
  readonly imageName: string;
  /** With the memory of the guest. */
  readonly memory?: boolean | undefined;
}

/**
 * What a save creates: an Image of this very VM.
 * @throws Svc3Error Conflict where the VM has no disk to save, or no memory where that is asked for, or is another than the request means
 */
export function savedImage(
  vm: Vm,
  { imageName, description, memory = false, uid }: SaveRequest,
): Submitted<Image> {
  requireMeant(vms, vm, uid);
  requireDisk(vm, 'save');
  if (memory) requireMemory(vm);
  const { name, namespace } = vm.metadata;
  const annotations = { [imageAnnotations.savedVm]: vm.metadata.uid };
  return {
    metadata: { name: imageName, namespace, annotations },
    spec: { ...described(description), source: { vm: { name, mode: memory ? 'SaveWithMemory' : 'Save' } } },
  };
}

/** What a commit changes of an Image. */
interface CommitPatch {
  readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
  readonly spec: Partial<Image['spec']>;
}

/**
 * Which Image a commit of this very VM changes, and how.
 * @throws Svc3Error Conflict where the VM has no disk, runs from no Image, or is another than the request means
 */
export function committedImage(
  vm: Vm,
  { description, uid }: CommitRequest = {},
): { readonly name: string; readonly body: CommitPatch } {
  requireMeant(vms, vm, uid);
  requireDisk(vm, 'commit');
  const target = commitTarget(vm);
  if (target.kind === 'none') throw conflict(vm, target.message);
  const commit = { vm: vm.metadata.name, request: randomUUID() };
  const annotations = { [imageAnnotations.committedVm]: `${commit.request}/${vm.metadata.uid}` };
  const body = { metadata: { annotations }, spec: { ...described(description), commit } };
  return { name: target.name, body };
}

function requireDisk(vm: Vm, what: string): void {
  requireStaying(vm, what);
  if (hasDisk(vm)) return;
  throw conflict(vm, `VM ${vm.metadata.name} is ${vmState(vm)}, ${what} needs a VM that has booted`);
}

function requireMemory(vm: Vm): void {
  const { name } = vm.metadata;
  const state = vmState(vm);
  if (state !== 'Running')
    throw conflict(vm, `VM ${name} is ${state}: only the memory of a VM that runs can be saved`);
  const { effective } = vm.status ?? {};
  const refusal = effective === undefined ? undefined : memoryRefusal(effective);
  if (refusal !== undefined) throw conflict(vm, `VM ${name}: ${refusal}`);
}

function conflict(vm: Vm, message: string): Svc3Error {
  return new Svc3Error('Conflict', message, {
    details: { group, kind: 'vms', name: vm.metadata.name },
  });
}

function described(description: string | undefined): Pick<Image['spec'], 'description'> {
  return description === undefined ? {} : { description };
}

/** What has become of a save or commit. */
export type Saving =
  | { readonly kind: 'underWay' }
  | { readonly kind: 'saved' }
  | { readonly kind: 'failed'; readonly error: Svc3Error };

/**
 * What has become of it, in the Image's words.
 * @param asked - the Image as the save or commit wrote it
 * @param now - the Image as it is; undefined where it is gone
 */
export function savingOf(asked: Image, now: Image | undefined): Saving {
  const { name, uid, generation = 0 } = asked.metadata;
  const failed = (reason: 'NotFound' | 'Conflict' | 'Invalid', message: string): Saving => {
    const details = { group, kind: 'images', name };
    return { kind: 'failed', error: new Svc3Error(reason, message, { details }) };
  };
  if (now === undefined || now.metadata.uid !== uid || now.metadata.deletionTimestamp !== undefined)
    return failed('NotFound', `image ${name} was deleted before it was ready`);
  if ((now.metadata.generation ?? 0) < generation) return { kind: 'underWay' };
  if (now.spec.commit?.request !== asked.spec.commit?.request) {
    const isWithdrawn = now.spec.commit === undefined;
    return failed(
      'Conflict',
      isWithdrawn
        ? `the commit of image ${name} was withdrawn`
        : `another commit of image ${name} came in between`,
    );
  }
  const { state, errorMessage } = imageItem(now);
  if (state === 'Updating') return { kind: 'underWay' };
  return errorMessage === undefined ? { kind: 'saved' } : failed('Invalid', `image ${name}: ${errorMessage}`);
}
