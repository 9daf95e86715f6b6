import { refuseLateCopy } from '../api/diskcopies.ts';
import type { Image, Iso } from '../api/image.ts';
import type { Resource } from '../api/object.ts';
import type { Architecture } from '../api/vmconfig.ts';
import { remoteRegistry } from '../controllers/image/remotereference.ts';
import type { KubeClient } from '../kube/types.ts';
import { preconditionOf, requireMeant } from '../wire/meant.ts';
import { nameOfReference } from '../wire/names.ts';
import { architectureNote } from './uploadtarget.ts';
import { writing } from './writing.ts';

type Disk = Image | Iso;

export interface DiskEnvironment {
  /** Whose right it is to write Images or ISOs. */
  readonly caller: KubeClient;
  readonly resource: Resource<Disk>;
  /** What requests call it. */
  readonly field: 'image' | 'iso';
}

export interface CopyEnvironment extends DiskEnvironment {
  /** What is to be copied; as kube-apiserver has it where it seems to be being deleted. @throws NotFound */
  source(): Promise<Disk>;
}

/** What a request may say of any disk that it makes. */
interface Described {
  readonly description?: string | undefined;
}

export interface BlankRequest extends Described {
  readonly name: string;
  /** A quantity. */
  readonly size: string;
  /** Undefined: what the operator takes of a disk that does not say it. */
  readonly architecture?: Architecture | undefined;
}

/**
 * Makes an empty disk.
 *
 * @throws Svc3Error AlreadyExists; Invalid that names the field of the request
 */
export function makeBlank(
  environment: DiskEnvironment,
  namespace: string,
  { name, size, description, architecture }: BlankRequest,
): Promise<Disk> {
  const metadata = { name, namespace, annotations: architectureNote(architecture) };
  return create(environment, metadata, { description, source: { blank: { size } } });
}

/**
 * Makes a copy of a disk beside it.
 *
 * @param meant - UID of the disk that is meant: another one of its name is not copied
 * @throws Svc3Error NotFound of the source; Conflict where that is being deleted or is another than `meant`; AlreadyExists; Invalid that names the field of the request
 */
export async function copyDisk(
  environment: CopyEnvironment,
  { name, description }: Described & { readonly name: string },
  meant?: string,
): Promise<Disk> {
  const source = await environment.source();
  requireMeant(environment.resource, source, meant);
  refuseLateCopy(source, environment.field);
  const { name: from, namespace } = source.metadata;
  return create(environment, { name, namespace }, { description, source: { image: { name: from } } });
}

/**
 * Makes the disk whose content is pulled from a remote registry; without a name it has the last part of the reference.
 *
 * @throws Svc3Error AlreadyExists; Invalid that names the field of the request: the reference is `remoteimage` or `remoteiso`
 */
export async function pullDisk(
  environment: DiskEnvironment,
  namespace: string,
  {
    reference,
    name,
    description,
  }: Described & { readonly reference: string; readonly name?: string | undefined },
): Promise<Disk> {
  const field = `remote${environment.field}`;
  remoteRegistry(reference, field);
  const named = name ?? nameOfReference(reference, field);
  return create(environment, { name: named, namespace }, { description, source: { remote: { reference } } });
}

/**
 * Changes what is said of a disk.
 *
 * @param meant - UID of the disk that is meant: another one of its name is left alone
 * @throws Svc3Error NotFound; Conflict where it is another than `meant`; Invalid that names the field of the request
 */
export function describeDisk(
  { caller, resource, field }: DiskEnvironment,
  key: { readonly namespace: string; readonly name: string },
  description: string,
  meant?: string,
): Promise<Disk> {
  const patch = { type: 'merge', body: { metadata: preconditionOf(meant), spec: { description } } } as const;
  return writing(() => caller.patch(resource, key, patch), fieldsOf(field));
}

function create(
  { caller, resource, field }: DiskEnvironment,
  metadata: { name: string; namespace: string; annotations?: Readonly<Record<string, string>> },
  { description, source }: Described & Pick<Image['spec'], 'source'>,
): Promise<Disk> {
  const spec = { ...(description === undefined ? {} : { description }), source };
  return writing(() => caller.create(resource, { metadata, spec }), fieldsOf(field));
}

/** Fields of a disk as requests name them. */
function fieldsOf(field: 'image' | 'iso'): Readonly<Record<string, string>> {
  return {
    'metadata.name': 'name',
    'spec.source.blank.size': 'size',
    'spec.source.image.name': field,
    'spec.source.remote.reference': `remote${field}`,
  };
}
