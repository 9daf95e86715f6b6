import { randomUUID } from 'node:crypto';
import type { Image } from '../api/image.ts';
import { group } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import { commitTarget } from '../api/committarget.ts';
import { memoryRefusal } from '../api/memory.ts';
import { imageItem } from './image.ts';
import { hasDisk, vmState } from './vm.ts';
import type { Submitted } from '../api/object.ts';

export interface SaveRequest {
  readonly imageName: string;
  readonly description?: string | undefined;
  /** With the memory of the guest. */
  readonly memory?: boolean | undefined;
}

/**
 * What a save creates.
 * @throws Svc3Error Conflict where the VM has no disk to save, or no memory where that is asked for
 */
export function savedImage(
  vm: Vm,
  { imageName, description, memory = false }: SaveRequest,
): Submitted<Image> {
  requireDisk(vm, 'save');
  if (memory) requireMemory(vm);
  const { name, namespace } = vm.metadata;
  return {
    metadata: { name: imageName, namespace },
    spec: { ...described(description), source: { vm: { name, mode: memory ? 'SaveWithMemory' : 'Save' } } },
  };
}

/**
 * Which Image a commit changes, and how.
 * @throws Svc3Error Conflict where the VM has no disk, or runs from no Image
 */
export function committedImage(
  vm: Vm,
  description: string | undefined,
): { readonly name: string; readonly body: { readonly spec: Partial<Image['spec']> } } {
  requireDisk(vm, 'commit');
  const target = commitTarget(vm);
  if (target.kind === 'none') throw conflict(vm, target.message);
  const commit = { vm: vm.metadata.name, request: randomUUID() };
  return { name: target.name, body: { spec: { ...described(description), commit } } };
}

function requireDisk(vm: Vm, what: string): void {
  const { name, deletionTimestamp } = vm.metadata;
  if (deletionTimestamp !== undefined)
    throw conflict(vm, `VM ${name} is being deleted: ${what} comes too late`);
  if (hasDisk(vm)) return;
  throw conflict(vm, `VM ${name} is ${vmState(vm)}, ${what} needs a VM that has booted`);
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
  if (now.spec.commit?.request !== asked.spec.commit?.request)
    return failed('Conflict', `another commit of image ${name} came in between`);
  const { state, errorMessage } = imageItem(now);
  if (state === 'Updating') return { kind: 'underWay' };
  return errorMessage === undefined ? { kind: 'saved' } : failed('Invalid', `image ${name}: ${errorMessage}`);
}
