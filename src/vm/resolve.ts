import type { Image, Iso } from '../api/image.ts';
import type { EffectiveSettings, Vm } from '../api/vm.ts';
import type { Architecture, VmConfig } from '../api/vmconfig.ts';
import { isTrue } from '../controller/conditions.ts';
import { isSvc3Error, messageOf } from '../errors.ts';
import { effectiveSettings } from './effective.ts';
import { hasDigest, parseImage, withDigest } from './imageref.ts';
import type { VmSettings } from './settings.ts';

export interface ResolvedImage {
  /** `sha256:…` of the manifest that a pull of the reference gives. */
  readonly digest: string;
  readonly architecture: Architecture | undefined;
}

/** Asks the registry, with the namespace's credential, what a reference means now. */
export interface ImageResolver {
  /** Errors: NotFound, Unauthorized or Forbidden (no pull right), ServiceUnavailable or Timeout. */
  resolve(namespace: string, reference: string): Promise<ResolvedImage>;
}

export interface ResolveSources {
  vmConfig(name: string, namespace: string): VmConfig | undefined;
  image(name: string, namespace: string): Image | undefined;
  iso(name: string, namespace: string): Iso | undefined;
  readonly resolver: ImageResolver | undefined;
  readonly settings: VmSettings;
}

/** Why a VM cannot be placed yet, as a condition row. */
export interface Unresolved {
  readonly kind: 'unresolved';
  readonly row: 'scheduled' | 'prepared' | 'stalled';
  readonly reason: string;
  readonly message: string;
  /** The registry has to be asked again; everything else comes as an event. */
  readonly poll: boolean;
}

export interface Resolved {
  readonly kind: 'resolved';
  readonly effective: EffectiveSettings;
  readonly warnings: readonly string[];
}

interface Pinned {
  readonly kind: 'pinned';
  readonly reference: string;
  /** Of the Image or ISO; a reference of a registry has none. */
  readonly name?: string;
  readonly architecture: Architecture | undefined;
  readonly warning?: string;
}

function unresolved(row: Unresolved['row'], reason: string, message: string, poll = false): Unresolved {
  return { kind: 'unresolved', row, reason, message, poll };
}

/**
 * The settings a VM gets when it is first placed: its VMConfig as it is now, its image pinned to a digest. Later
 * changes of either never touch the VM.
 */
export async function resolveVm(vm: Vm, sources: ResolveSources): Promise<Resolved | Unresolved> {
  const namespace = vm.metadata.namespace ?? '';
  const { spec } = vm;
  const config = spec.config === undefined ? undefined : sources.vmConfig(spec.config, namespace);
  if (spec.config !== undefined && config === undefined) {
    return unresolved(
      'scheduled',
      'ConfigNotFound',
      `VMConfig ${spec.config} does not exist in namespace ${namespace}`,
    );
  }
  const imageText = spec.image ?? config?.spec.image;
  if (imageText === undefined) {
    return unresolved(
      'stalled',
      'InvalidSpec',
      `spec.image: neither the VM nor VMConfig ${spec.config} names an image`,
    );
  }
  const architecture = spec.architecture ?? config?.spec.architecture;
  const image = await pin(imageText, namespace, 'Image', sources, architecture);
  if (image.kind === 'unresolved') return image;
  const isoText = spec.iso ?? config?.spec.iso;
  const iso =
    isoText === undefined || isoText === '' ? undefined : await pin(isoText, namespace, 'ISO', sources);
  if (iso?.kind === 'unresolved') return iso;
  return settle(vm, config, image, iso, sources.settings);
}

function settle(
  vm: Vm,
  config: VmConfig | undefined,
  image: Pinned,
  iso: Pinned | undefined,
  settings: VmSettings,
): Resolved | Unresolved {
  const { portRanges } = settings;
  const result = effectiveSettings({
    spec: vm.spec,
    config: config?.spec,
    image,
    iso: iso?.reference,
    gpuPassthroughEnabled: settings.gpuPassthroughEnabled,
    hostPortsAllowed: settings.hostPortsAllowed,
    services: { ssh: portRanges.ssh !== undefined, screenshare: portRanges.screenshare !== undefined },
  });
  if (result.kind === 'refused') {
    const row = result.reason === 'ArchitectureMismatch' ? 'prepared' : 'stalled';
    return unresolved(row, result.reason, result.message);
  }
  const unpinned = [image.warning, iso?.warning].filter((warning) => warning !== undefined);
  return { kind: 'resolved', effective: result.settings, warnings: [...result.warnings, ...unpinned] };
}

async function pin(
  text: string,
  namespace: string,
  kind: 'Image' | 'ISO',
  sources: ResolveSources,
  architecture?: Architecture,
): Promise<Pinned | Unresolved> {
  const name = parseImage(text);
  if (name.kind === 'reference') {
    // Nothing is left to ask.
    if (architecture !== undefined && hasDigest(text))
      return { kind: 'pinned', reference: text, architecture };
    return pinReference(name.reference, namespace, sources.resolver);
  }
  const object = kind === 'Image' ? sources.image(name.name, namespace) : sources.iso(name.name, namespace);
  return pinObject(object, name.name, namespace, kind);
}

function pinObject(
  object: Image | Iso | undefined,
  name: string,
  namespace: string,
  kind: 'Image' | 'ISO',
): Pinned | Unresolved {
  if (object === undefined) {
    return unresolved(
      'scheduled',
      'ImageNotFound',
      `${kind} ${name} does not exist in namespace ${namespace}`,
    );
  }
  const { status } = object;
  if (status?.reference === undefined || !isTrue(status.conditions, 'Ready')) {
    const why = status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
    return unresolved(
      'scheduled',
      'ImageNotReady',
      `${kind} ${name} is not ready${why === '' ? '' : `: ${why}`}`,
    );
  }
  return { kind: 'pinned', name, reference: status.reference, architecture: status.architecture };
}

async function pinReference(
  reference: string,
  namespace: string,
  resolver: ImageResolver | undefined,
): Promise<Pinned | Unresolved> {
  if (resolver === undefined) return { kind: 'pinned', reference, architecture: undefined };
  try {
    const { digest, architecture } = await resolver.resolve(namespace, reference);
    return {
      kind: 'pinned',
      reference: hasDigest(reference) ? reference : withDigest(reference, digest),
      architecture,
    };
  } catch (error) {
    const message = messageOf(error);
    if (isSvc3Error(error, 'NotFound')) {
      return unresolved('scheduled', 'ImageNotFound', `image ${reference} does not exist: ${message}`, true);
    }
    if (isSvc3Error(error, 'Unauthorized', 'Forbidden')) {
      return unresolved(
        'scheduled',
        'ImagePullDenied',
        `image ${reference} may not be pulled: ${message}`,
        true,
      );
    }
    if (isSvc3Error(error, 'Invalid')) return unresolved('stalled', 'InvalidSpec', message);
    // Nodes may reach a registry that the operator does not: the kubelet has the last word.
    const warning = `image ${reference} could not be pinned to a digest: ${message}`;
    return { kind: 'pinned', reference, architecture: undefined, warning };
  }
}
