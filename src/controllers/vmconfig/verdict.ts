import type { Image, Iso } from '../../api/image.ts';
import type { Condition } from '../../api/object.ts';
import { conditionTypes } from '../../api/reasons.ts';
import type { Architecture, VmConfig } from '../../api/vmconfig.ts';
import { isTrue, findCondition } from '../../controller/conditions.ts';
import { shortenNote } from '../../kube/recorder.ts';
import { namedDisk } from '../image/nameddisk.ts';
import type { DiskKind } from '../image/repositorypath.ts';
import { parseImage, type ImageName } from '../vm/resolve/imageref.ts';

/** What ends a problem: work of svc3, a person, or an object that may still be applied within a minute (`applyOrderLeftMs`). */
type WaitsFor = 'svc3' | 'person' | 'applyOrder';

/** Why no VM can be placed with the Image or ISO that a VMConfig names. */
export interface Problem {
  readonly reason: `${DiskKind}${'NotFound' | 'NotReady' | 'Terminating'}`;
  readonly message: string;
  readonly waitsFor: WaitsFor;
}

/** What the status of a VMConfig is made from. */
export type Verdict =
  | { readonly isReady: true; readonly reason: 'Resolved' | 'RegistryNotAsked'; readonly message: string }
  | ({ readonly isReady: false } & Problem);

/** The Images and ISOs of the namespace of the VMConfig, by name. */
export interface Disks {
  image(name: string): Image | undefined;
  iso(name: string): Iso | undefined;
}

interface Named {
  readonly kind: DiskKind;
  readonly name: ImageName;
}

/** What a VMConfig names; an empty `spec.iso` is none. */
function namedBy({ spec }: VmConfig): Named[] {
  const texts = { Image: spec.image ?? '', ISO: spec.iso ?? '' };
  return (['Image', 'ISO'] as const)
    .filter((kind) => texts[kind] !== '')
    .map((kind) => ({ kind, name: parseImage(texts[kind]) }));
}

/** The Image or ISO that a VMConfig names; undefined where it names none, or a reference of a registry. */
export function diskNamed(config: VmConfig, kind: DiskKind): string | undefined {
  const name = namedBy(config).find((named) => named.kind === kind)?.name;
  return name?.kind === 'object' ? name.name : undefined;
}

/** Whether VMs can be placed with the Image and ISO that a VMConfig names, as they are now. Registries are not asked. */
export function judge(config: VmConfig, disks: Disks): Verdict {
  const { namespace } = config.metadata;
  const named = namedBy(config);
  const problems = named.flatMap(({ kind, name }) => {
    if (name.kind === 'reference') return [];
    const disk = kind === 'Image' ? disks.image(name.name) : disks.iso(name.name);
    return problemOf(kind, { name: name.name, namespace }, disk) ?? [];
  });
  const worst = worstOf(problems);
  if (worst !== undefined)
    return { isReady: false, ...worst, message: problems.map(({ message }) => message).join('; ') };
  const isAtRegistry = named.some(({ name }) => name.kind === 'reference');
  return {
    isReady: true,
    reason: isAtRegistry ? 'RegistryNotAsked' : 'Resolved',
    message: named.length === 0 ? 'names no Image and no ISO' : named.map(readyText).join('; '),
  };
}

/** The architecture of the Image that a VMConfig names; undefined before VMs can be placed with it, and where it names a registry. */
export function architectureOf(config: VmConfig, disks: Pick<Disks, 'image'>): Architecture | undefined {
  const name = diskNamed(config, 'Image');
  return name === undefined ? undefined : usableArchitecture(disks.image(name));
}

/** Of a disk with which VMs can be placed. */
export function usableArchitecture(disk: Image | Iso | undefined): Architecture | undefined {
  const found = namedDisk(disk);
  return found.kind === 'ready' ? found.status.architecture : undefined;
}

function readyText({ kind, name }: Named): string {
  return name.kind === 'object'
    ? `${kind} ${name.name} is ready`
    : `${kind === 'Image' ? 'image' : 'ISO'} ${name.reference} is not looked for before a VM is deployed`;
}

/** Problems that need a person come before those that end by themselves. */
function worstOf(problems: readonly Problem[]): Problem | undefined {
  const ofKind = (waitsFor: WaitsFor) => problems.find((problem) => problem.waitsFor === waitsFor);
  return ofKind('person') ?? ofKind('applyOrder') ?? problems[0];
}

/** Most bytes of the message of a Stalled Image or ISO that are quoted: a thousand VMConfigs may name it. */
const quoteBytes = 1_024;

/**
 * Why an Image or ISO cannot be used; undefined where it can. Its message is not quoted while svc3 works on it: the message changes with
 * every step of the work, and each change would be a write for every VMConfig that names it.
 */
export function problemOf(
  kind: DiskKind,
  { name, namespace }: { readonly name: string; readonly namespace: string },
  disk: Image | Iso | undefined,
): Problem | undefined {
  const found = namedDisk(disk);
  const told = `${kind} ${name}`;
  switch (found.kind) {
    case 'notFound':
      return {
        reason: `${kind}NotFound`,
        message: `${told} does not exist in namespace ${namespace}`,
        waitsFor: 'applyOrder',
      };
    case 'terminating':
      return {
        reason: `${kind}Terminating`,
        message: `${told} in namespace ${namespace} is being deleted`,
        waitsFor: 'applyOrder',
      };
    case 'notReady':
      return notReady(kind, `${told} in namespace ${namespace} is not ready`, found.status?.conditions);
    default:
      return undefined;
  }
}

function notReady(kind: DiskKind, message: string, conditions: readonly Condition[] | undefined): Problem {
  const reason = `${kind}NotReady` as const;
  if (!isTrue(conditions, conditionTypes.stalled)) return { reason, message, waitsFor: 'svc3' };
  const why = findCondition(conditions, conditionTypes.stalled)?.message ?? '';
  return { reason, message: `${message}: ${shortenNote(why, quoteBytes)}`, waitsFor: 'person' };
}
