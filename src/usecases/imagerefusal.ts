import type { Image } from '../api/image.ts';
import type { Vm } from '../api/vm.ts';
import { invalidField, type Svc3Error } from '../errors.ts';
import { conditionOf } from '../wire/vm.ts';

/** Why what a VM names cannot be pulled, and the field of the request that names it. */
export interface ImageRefusal {
  readonly field: 'image' | 'iso';
  readonly message: string;
}

/** Reasons of `Scheduled` that a registry or the store has given as its last word. */
const refusals: ReadonlySet<string> = new Set(['ImageNotFound', 'ImagePullDenied']);

/**
 * What a container runtime quotes of a registry that answered no (404, 401, 403). Everything else it says of a pull may pass:
 * names that do not resolve, connections, time limits, a blob that is not there yet.
 */
const definite =
  /code = NotFound|: not found$|pull access denied|insufficient_scope|\b401 Unauthorized|\b403 Forbidden|InvalidImageName/;

/** Why the image or the ISO of a VM definitely cannot be pulled; undefined while that is open. Pure. */
export function imageRefusal({ spec, status }: Vm): ImageRefusal | undefined {
  const scheduled = conditionOf(status?.conditions, 'Scheduled');
  if (scheduled?.status === 'False' && refusals.has(scheduled.reason)) {
    const isIso = isNamed(scheduled.message, spec.iso) || scheduled.message.startsWith('ISO ');
    return { field: isIso ? 'iso' : 'image', message: scheduled.message };
  }
  const prepared = conditionOf(status?.conditions, 'Prepared');
  if (prepared?.status !== 'False' || prepared.reason !== 'ImagePullFailed') return undefined;
  const { message } = prepared;
  // The pod pulls the runner's image as well: that one is the installation's.
  const { image, iso } = status?.effective ?? {};
  if (!definite.test(message)) return undefined;
  if (isNamed(message, image)) return { field: 'image', message };
  return isNamed(message, iso) ? { field: 'iso', message } : undefined;
}

function isNamed(message: string, reference: string | undefined): boolean {
  return reference !== undefined && reference !== '' && message.includes(reference);
}

/** The refusal of an Image that has nothing and gets nothing until somebody acts; undefined where it has or may get something. */
export function unusableImage({ metadata, status }: Image): Svc3Error | undefined {
  const ready = conditionOf(status?.conditions, 'Ready');
  const stalled = conditionOf(status?.conditions, 'Stalled');
  // Who uploads a disk and deploys from it at the same time is not held to the order.
  const isGivenUp = stalled?.status === 'True' && stalled.reason !== 'AwaitingUpload';
  if (ready?.status !== 'False' || !isGivenUp) return undefined;
  return invalidField('image', `Image ${metadata.name} is not usable: ${ready.message}`);
}
