import { configKeyOf, namespaceOfDisk } from '../../../api/configkey.ts';
import { type DiskClaimMeta, diskImagesOf } from '../../../api/diskimage.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import { repositoryOf } from '../../../api/repository.ts';
import { diskWaitsForPerson, diskWaitsForUpload } from '../../../api/reasons.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { Architecture, VmConfig } from '../../../api/vmconfig.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { keyOf } from '../../../controller/controller.ts';
import { isSvc3Error, messageOf } from '../../../errors.ts';
import type { VmPool } from '../../../api/vmpool.ts';
import { templated } from '../facts/standby.ts';
import { type DiskFacts, namedDisk } from '../../image/nameddisk.ts';
import { remoteRegistry } from '../../image/remotereference.ts';
import type { DiskKind } from '../../image/repositorypath.ts';
import { effectiveSettings } from './effective.ts';
import { type SavedGuest, savedGuestOf } from './savedguest.ts';
import type { ImageAnswer, SoughtImage } from './imageresolutions.ts';
import { hasDigest, parseImage, withDigest } from './imageref.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

export interface ResolveSources {
  vmConfig(name: string, namespace: string): VmConfig | undefined;
  /** Undefined where nobody looks for pools. */
  vmPool?(name: string, namespace: string): VmPool | undefined;
  image(name: string, namespace: string): DiskFacts | undefined;
  iso(name: string, namespace: string): DiskFacts | undefined;
  /** Of those that have disks of VMs; undefined where nobody looks for claims. */
  claim?(name: string, namespace: string): DiskClaimMeta | undefined;
  /** What is known of a reference that the VM of this key names; undefined where nobody can be asked. */
  answer(vmKey: string, namespace: string, reference: string, sought: SoughtImage): ImageAnswer | undefined;
  readonly settings: VmSettings;
}

/** Why a VM cannot be placed yet, as one of its conditions. */
export interface Unresolved {
  readonly kind: 'unresolved';
  readonly condition: 'scheduled' | 'prepared' | 'stalled';
  readonly reason: string;
  readonly message: string;
  /** Milliseconds until the registry may be asked again; everything else comes as an event. */
  readonly retryMs?: number;
}

/** The registry is being asked what the image means; the VM is woken when there is an answer. */
export interface Asking {
  readonly kind: 'asking';
  readonly message: string;
  readonly forMs: number;
}

export interface Resolved {
  readonly kind: 'resolved';
  readonly effective: EffectiveSettings;
  readonly warnings: readonly string[];
  /** Fields of spec that differ from these settings and apply when the guest is started next. */
  readonly waiting?: readonly string[];
  /** What of the spec this installation refuses, where the VM goes on without it. */
  readonly refusal?: string;
  /** The settings that a boot in this pod has. */
  readonly atBoot?: EffectiveSettings;
}

interface Pinned {
  readonly kind: 'pinned';
  readonly reference: string;
  /** Of the Image or ISO; a reference of a registry has none. */
  readonly name?: string;
  /** Of that object, where it is another than the VM's. */
  readonly namespace?: string;
  readonly architecture: Architecture | undefined;
  /** Virtual size of its disk where it is known. */
  readonly bytes?: number | undefined;
  readonly guest?: SavedGuest | undefined;
  readonly warning?: string;
}

function unresolved(
  condition: Unresolved['condition'],
  reason: string,
  message: string,
  retryMs?: number,
): Unresolved {
  return { kind: 'unresolved', condition, reason, message, ...(retryMs === undefined ? {} : { retryMs }) };
}

/**
 * The settings a VM gets when it is first placed: its VMConfig as it is now, its image pinned to a digest. Later
 * changes of either never touch the VM.
 */
export function resolveVm(vm: Vm, sources: ResolveSources): Resolved | Unresolved | Asking {
  const { spec } = vm;
  if (spec.pool !== undefined) {
    const { namespace } = vm.metadata;
    const pool = sources.vmPool?.(spec.pool, namespace);
    if (pool !== undefined) return ofPool(spec.pool, resolveVm(templated(vm, pool), sources));
    return unresolved(
      'scheduled',
      'PoolNotFound',
      `VMPool ${spec.pool} does not exist in namespace ${namespace}`,
    );
  }
  const key = configKeyOf(vm);
  const config = key === undefined ? undefined : sources.vmConfig(key.name, key.namespace);
  if (key !== undefined && config === undefined) {
    const message = `VMConfig ${key.name} does not exist in namespace ${key.namespace}`;
    return unresolved('scheduled', 'ConfigNotFound', message);
  }
  const imageText = spec.image ?? config?.spec.image;
  if (imageText === undefined)
    return unresolved(
      'stalled',
      'InvalidSpec',
      `image: neither the VM nor VMConfig ${spec.config} names an image`,
    );
  const architecture = spec.architecture ?? config?.spec.architecture;
  const isoText = spec.iso ?? config?.spec.iso;
  // Both registries are asked at the same time.
  const { storage, size } = { ...config?.spec.disk, ...spec.disk };
  const withSize = storage === 'Persistent' || size !== undefined;
  const image = pin(vm, imageText, 'Image', sources, { architecture, withSize });
  const iso = isoText === undefined || isoText === '' ? undefined : pinMedium(vm, isoText, sources);
  if (image.kind !== 'pinned') return image;
  if (iso !== undefined && iso.kind !== 'pinned') return iso;
  const base = storage === 'Persistent' ? baseOfClaim(vm, imageText, image, sources) : image;
  return settingsOf(vm, config, base, iso, sources.settings);
}

/**
 * The image for a VM that goes on with a disk which is there: the version that the disk was made on, where the VM names the same image and no digest. It is no
 * other image's disk, whatever version there is by now.
 */
function baseOfClaim(vm: Vm, text: string, image: Pinned, { claim }: ResolveSources): Pinned {
  const { claimName } = vm.spec.disk ?? {};
  const there = claimName === undefined ? undefined : claim?.(claimName, vm.metadata.namespace);
  if (there === undefined || hasDigest(text)) return image;
  const repository = repositoryOf(image.reference);
  const [made, another] = diskImagesOf(there).filter((reference) => repositoryOf(reference) === repository);
  if (made === undefined || another !== undefined || made === image.reference || !hasDigest(made))
    return image;
  const { guest: _guest, bytes: _bytes, ...same } = image;
  const warning = `image ${text} has another version by now than the disk of claim ${claimName} was made on: the VM has that one, ${made}`;
  return { ...same, reference: made, warning };
}

/** What is wrong with a template is to be changed in its pool. */
function ofPool<T extends Resolved | Unresolved | Asking>(name: string, result: T): T {
  if (result.kind !== 'unresolved' || result.reason !== 'InvalidSpec') return result;
  return { ...result, message: `VMPool ${name}: ${result.message}` };
}

/** What the name of an install medium means now. */
export function pinMedium(vm: Vm, name: string, sources: ResolveSources): Pinned | Unresolved | Asking {
  return pin(vm, name, 'ISO', sources);
}

function settingsOf(
  vm: Vm,
  config: VmConfig | undefined,
  image: Pinned,
  iso: Pinned | undefined,
  settings: VmSettings,
): Resolved | Unresolved {
  const result = effectiveSettings({
    spec: vm.spec,
    config: config?.spec,
    image,
    iso: iso?.reference,
    gpuPassthroughEnabled: settings.gpuPassthroughEnabled,
    hostPortsAllowed: settings.hostPortsAllowed,
    services: nodePortDefaults(settings),
  });
  if (result.kind === 'refused') {
    const condition = result.reason === 'ArchitectureMismatch' ? 'prepared' : 'stalled';
    return unresolved(condition, result.reason, result.message);
  }
  const tooLarge = ephemeralRefusal(result.settings, settings);
  if (tooLarge !== undefined) return unresolved('stalled', 'InvalidSpec', tooLarge);
  const unpinned = [image.warning, iso?.warning].filter((warning) => warning !== undefined);
  return { kind: 'resolved', effective: result.settings, warnings: [...result.warnings, ...unpinned] };
}

/** Why the size of an Ephemeral disk is refused; that of its image only the runner knows. */
function ephemeralRefusal(
  { disk }: EffectiveSettings,
  { ephemeralLimitBytes }: VmSettings,
): string | undefined {
  if (disk?.size === undefined || disk.storage === 'Persistent') return undefined;
  if (parseQuantity(disk.size, 'disk.size') <= ephemeralLimitBytes) return undefined;
  const limit = formatQuantity(ephemeralLimitBytes);
  return `disk.size: ${disk.size} is more than an Ephemeral disk may have here (${limit}, chart value disk.ephemeralLimit); deploy it again with storage Persistent, or with a smaller size`;
}

function pin(
  vm: Vm,
  text: string,
  kind: DiskKind,
  sources: ResolveSources,
  sought: SoughtImage = {},
): Pinned | Unresolved | Asking {
  const name = parseImage(text);
  if (name.kind === 'reference') return pinReference(vm, { kind, reference: text }, sources, sought);
  const namespace = namespaceOfDisk(vm, fields[kind]);
  const object = kind === 'Image' ? sources.image(name.name, namespace) : sources.iso(name.name, namespace);
  const pinned = pinObject(object, name.name, namespace, kind);
  if (pinned.kind !== 'pinned') return pinned;
  const own = vm.metadata.namespace;
  return { ...pinned, guest: savedGuestOf(object, own), ...(namespace === own ? {} : { namespace }) };
}

function pinObject(
  object: DiskFacts | undefined,
  name: string,
  namespace: string,
  kind: DiskKind,
): Pinned | Unresolved {
  const found = namedDisk(object);
  switch (found.kind) {
    case 'notFound': {
      const missing = `${kind} ${name} does not exist in namespace ${namespace}`;
      return unresolved('scheduled', 'ImageNotFound', missing);
    }
    case 'terminating':
      return unresolved('scheduled', 'ImageTerminating', `${kind} ${name} is being deleted`);
    case 'notReady': {
      const { reason = '', message: why = '' } = findCondition(found.status?.conditions, 'Ready') ?? {};
      const waiting = `${kind} ${name} is not ready${why === '' ? '' : `: ${why}`}`;
      const isFailed = diskWaitsForPerson.has(reason) && !diskWaitsForUpload.has(reason);
      return unresolved('scheduled', isFailed ? 'ImageFailed' : 'ImageNotReady', waiting);
    }
    default: {
      const { reference, architecture, size } = found.status;
      const bytes = size === undefined ? undefined : parseQuantity(size, 'size');
      return { kind: 'pinned', name, reference, architecture, bytes };
    }
  }
}

/** What VM and VMConfig call the one and the other. */
const fields = { Image: 'image', ISO: 'iso' } as const;

interface NamedReference {
  readonly kind: DiskKind;
  readonly reference: string;
}

/** As messages name it. */
function textOf({ kind, reference }: NamedReference): string {
  return `${kind === 'Image' ? 'image' : 'ISO'} ${reference}`;
}

/** A reference that has to be changed; the message begins with its field, before that the VMConfig where the VM has it from there. */
function invalidReference({ spec }: Vm, kind: DiskKind, message: string): Unresolved {
  const isOwn = spec.config === undefined || spec[fields[kind]] !== undefined;
  return unresolved('stalled', 'InvalidSpec', isOwn ? message : `VMConfig ${spec.config}: ${message}`);
}

/** Why there cannot be anything of that name, whatever a registry has. */
function referenceRefusal(vm: Vm, { kind, reference }: NamedReference): Unresolved | undefined {
  try {
    remoteRegistry(reference, fields[kind]);
    return undefined;
  } catch (error) {
    if (!isSvc3Error(error, 'Invalid')) throw error;
    return invalidReference(vm, kind, messageOf(error));
  }
}

function pinReference(
  vm: Vm,
  named: NamedReference,
  sources: ResolveSources,
  sought: SoughtImage,
): Pinned | Unresolved | Asking {
  const refusal = referenceRefusal(vm, named);
  if (refusal !== undefined) return refusal;
  const { reference } = named;
  // Nothing is left to ask.
  const { architecture: wanted, withSize = false } = sought;
  if (wanted !== undefined && hasDigest(reference) && !withSize)
    return { kind: 'pinned', reference, architecture: wanted };
  const answer = answerFor(vm, reference, sources, sought);
  if (answer === undefined) return { kind: 'pinned', reference, architecture: undefined };
  switch (answer.kind) {
    case 'asking':
      return { kind: 'asking', message: `asking the registry for ${textOf(named)}`, forMs: answer.forMs };
    case 'failed':
      return pinFailed(vm, named, answer);
    default: {
      const { digest, architecture, bytes } = answer.image;
      const pinned = hasDigest(reference) ? reference : withDigest(reference, digest);
      return { kind: 'pinned', reference: pinned, architecture, bytes };
    }
  }
}

function answerFor(
  vm: Vm,
  reference: string,
  sources: ResolveSources,
  sought: SoughtImage,
): ImageAnswer | undefined {
  try {
    return sources.answer(keyOf(vm), vm.metadata.namespace, reference, sought);
  } catch (error) {
    return { kind: 'failed', error, retryMs: 0 };
  }
}

function pinFailed(
  vm: Vm,
  named: NamedReference,
  { error, retryMs }: Extract<ImageAnswer, { kind: 'failed' }>,
): Pinned | Unresolved {
  const { kind, reference } = named;
  const message = messageOf(error);
  if (isSvc3Error(error, 'NotFound')) {
    const missing = `${textOf(named)} was not found: ${message}`;
    return unresolved('scheduled', 'ImageNotFound', missing, retryMs);
  }
  if (isSvc3Error(error, 'Unauthorized', 'Forbidden')) {
    const denied = `${textOf(named)} may not be pulled: ${message}`;
    return unresolved('scheduled', 'ImagePullDenied', denied, retryMs);
  }
  if (isSvc3Error(error, 'Invalid'))
    return invalidReference(vm, kind, `${fields[kind]}: "${reference}": ${message}`);
  // Nodes may reach a registry that the operator does not: the kubelet has the last word.
  const warning = `${textOf(named)} could not be pinned to a digest: ${message}`;
  return { kind: 'pinned', reference, architecture: undefined, warning };
}
