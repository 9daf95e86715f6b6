import type { Image, Iso } from '../api/image.ts';
import { diskRefusals } from '../api/reasons.ts';
import { images, isos } from '../api/resources.ts';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import { imageAnnotations } from '../api/image.ts';
import type { Architecture } from '../api/vmconfig.ts';
import type { DiskKind } from '../controllers/image/repositorypath.ts';
import type { Resource, Submitted } from '../api/object.ts';
import type { KubeClient } from '../kube/types.ts';

type Disk = Image | Iso;

/** The Image or ISO that an upload is to fill. */
export interface UploadTarget {
  readonly kind: DiskKind;
  readonly namespace: string;
  readonly name: string;
}

/** What somebody says of a disk that they upload. */
export interface UploadFacts {
  /** Of a new object: one that waits has its own. */
  readonly description: string | undefined;
  /** Undefined: what the object that waits says, else amd64. */
  readonly architecture?: Architecture | undefined;
}

/** What is known of an upload once it is whole in the store. */
interface StoredUpload {
  readonly id: string;
  readonly digest: string;
}

export interface UploadTargets {
  /**
   * Whether the name can take an upload: there is no such object, or it waits for its upload, or refused the one before, or that is lost.
   * Where there is none a dry run makes it, so that what kube-apiserver would refuse (a name, a quota, a policy, the namespace) is refused
   * before the first byte.
   *
   * @returns the UID of the object that waits.
   * @throws AlreadyExists, and what kube-apiserver refuses the object with.
   */
  look(target: UploadTarget, said: UploadFacts): Promise<string | undefined>;
  /**
   * Hands an upload that is whole in the store to the operator.
   *
   * @param upload.uid what `look` said when it began: an object that was deleted meanwhile is not made again.
   * An answer that was lost is looked for.
   *
   * @throws AlreadyExists when somebody else was faster, NotFound when the object was deleted meanwhile. What else it throws
   * may leave open who has the upload (`leavesOpen`): what lies in the store has to stay.
   */
  handOver(
    target: UploadTarget,
    upload: UploadFacts & StoredUpload & { readonly uid: string | undefined },
  ): Promise<Disk>;
  /** The object that took the upload of this id over. */
  takenBy(target: UploadTarget, id: string): Promise<Disk | undefined>;
}

/** Stands for what is not known before the last byte. */
const unknownUpload: StoredUpload = { id: 'not-known-yet', digest: `sha256:${'0'.repeat(64)}` };

/** Somebody else's write came in between: look again. */
const attempts = 5;

/**
 * Looks for Images and ISOs, and writes them, with the rights of `client`. A write of somebody else that comes in between (Conflict) is met by looking again,
 * five times in all.
 */
export function createUploadTargets(client: KubeClient): UploadTargets {
  async function found({ kind, name, namespace }: UploadTarget): Promise<Disk | undefined> {
    try {
      return await client.get(resourceOf(kind), name, namespace);
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  async function free(target: UploadTarget): Promise<Disk | undefined> {
    const disk = await found(target);
    if (disk !== undefined && !isFree(disk)) throw exists(target, disk);
    return disk;
  }

  async function handOverOnce(
    target: UploadTarget,
    upload: Parameters<UploadTargets['handOver']>[1],
  ): Promise<Disk> {
    const { kind, name, namespace } = target;
    const resource = resourceOf(kind);
    const { uid } = upload;
    const disk = await free(target);
    if (uid !== undefined && disk?.metadata.uid !== uid)
      throw new Svc3Error('NotFound', `${nameOf(target)} was deleted while it was being uploaded`);
    if (disk !== undefined) {
      const { resourceVersion } = disk.metadata;
      const body = {
        metadata: { annotations: annotationsOf(upload), uid: disk.metadata.uid, resourceVersion },
      };
      const patch = { type: 'merge', body } as const;
      return client.patch(resource, { name, namespace }, patch);
    }
    return client.create(resource, newDisk(target, upload));
  }

  async function takenBy(target: UploadTarget, id: string): Promise<Disk | undefined> {
    const disk = await found(target);
    return disk?.metadata.annotations?.[imageAnnotations.uploadId] === id ? disk : undefined;
  }

  return {
    async look(target, said) {
      const disk = await free(target);
      if (disk === undefined)
        await client.create(resourceOf(target.kind), newDisk(target, { ...said, ...unknownUpload }), {
          dryRun: true,
        });
      return disk?.metadata.uid;
    },
    async handOver(target, upload) {
      for (let attempt = 1; ; attempt += 1)
        try {
          return await handOverOnce(target, upload);
        } catch (error) {
          if (attempt < attempts && isSvc3Error(error, 'Conflict')) continue;
          const taken = await takenBy(target, upload.id);
          if (taken !== undefined) return taken;
          throw error;
        }
    },
    takenBy,
  };
}

/** The annotation that says for which guests a disk is of which nothing else does; none where nothing is said. */
export function architectureNote(architecture: Architecture | undefined): Readonly<Record<string, string>> {
  return architecture === undefined ? {} : { [imageAnnotations.architecture]: architecture };
}

/** What the operator reads of an upload. */
function annotationsOf({ id, digest, architecture }: UploadFacts & StoredUpload): Record<string, string> {
  return {
    [imageAnnotations.upload]: digest,
    [imageAnnotations.uploadId]: id,
    ...architectureNote(architecture),
  };
}

/** The object that an upload becomes where none waits for it. */
function newDisk({ name, namespace }: UploadTarget, upload: UploadFacts & StoredUpload): Submitted<Disk> {
  const { description } = upload;
  return {
    metadata: { name, namespace, annotations: annotationsOf(upload) },
    spec: { ...(description === undefined ? {} : { description }), source: { upload: {} } },
  };
}

function resourceOf(kind: DiskKind): Resource<Disk> {
  return kind === 'ISO' ? isos : images;
}

/** Whether it waits for an upload; one that was refused, or is lost, can be sent once more. */
function isFree({ metadata, spec, status }: Disk): boolean {
  if (metadata.deletionTimestamp !== undefined || spec.source.upload === undefined) return false;
  if (status?.digest !== undefined) return false;
  const upload = metadata.annotations?.[imageAnnotations.upload];
  const stalled = status?.conditions?.find(({ type }) => type === 'Stalled');
  const isRefused = stalled?.status === 'True' && diskRefusals.has(stalled.reason);
  return upload === undefined || (isRefused && status?.request === upload.slice(-64));
}

function nameOf({ kind, name }: UploadTarget): string {
  return `${kind === 'ISO' ? 'isos' : 'images'}.svc3.dev "${name}"`;
}

function exists(target: UploadTarget, { metadata }: Disk): Svc3Error {
  const isGoing = metadata.deletionTimestamp !== undefined;
  const message = isGoing ? 'is being deleted; its name can be used again when it is gone' : 'already exists';
  return new Svc3Error('AlreadyExists', `${nameOf(target)} ${message}`, {
    details: {
      group: 'svc3.dev',
      kind: target.kind === 'ISO' ? 'isos' : 'images',
      name: target.name,
      causes: [{ field: 'name', message }],
    },
  });
}
