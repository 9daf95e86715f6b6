import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../../../api/core.ts';
import { configKeyOf } from '../../../api/configkey.ts';
import { extendedResources } from '../../../api/meta.ts';
import { parseQuantity } from '../../../api/quantity.ts';
import { EffectiveSettings, type Vm, type VmSpec } from '../../../api/vm.ts';
import type { VmConfigSpec } from '../../../api/vmconfig.ts';
import { anotherMedium, asConfig, type Changed, changedInNextPod, changedSettings } from './changes.ts';
import { type Effective, effectiveSettings } from './effective.ts';
import { withLiveSettings } from './livesettings.ts';
import { withoutRest } from './meaning.ts';
import { digestOf, isNamed, parseImage } from './imageref.ts';
import { effectiveAnnotation } from '../names.ts';
import { annotatedSettings } from '../facts/annotatedsettings.ts';
import { hasBundle } from '../facts/bundle.ts';
import { isPodOf } from '../facts/ownpod.ts';
import { templated } from '../facts/standby.ts';
import type { Resolved, ResolveSources } from './resolve.ts';

/** A pod whose settings contradict its VM or itself. */
export interface Contradicted {
  readonly kind: 'contradicted';
  readonly message: string;
}

type Sources = Pick<ResolveSources, 'image' | 'iso' | 'settings' | 'vmConfig' | 'vmPool'>;

/**
 * The settings of a VM that has its pod: frozen in its status, and before the operator has written that, in the pod's
 * annotation. Whoever may write pods in the namespace can have written the annotation: it is taken where it follows
 * from the VM under this installation's rules, or those that it can have had when the pod was made, and is what the pod runs.
 * Undefined where the pod is not the VM's.
 */
export function settingsOfPod(vm: Vm, pod: Pod, sources: Sources): Resolved | Contradicted | undefined {
  const frozen = vm.status?.effective;
  if (frozen !== undefined) return settingsInForce(vm, pod, frozen, sources);
  if (!isPodOf(pod, vm)) return undefined;
  const adopted = adoptedSettings(vm, pod, sources);
  if (typeof adopted !== 'string')
    return { kind: 'resolved', ...adopted, effective: withLiveSettings(vm, adopted.effective) };
  const name = pod.metadata.name;
  return {
    kind: 'contradicted',
    message: `pod ${name} is not as svc3 makes it: its annotation ${effectiveAnnotation} ${adopted}`,
  };
}

/** The settings of the pod's annotation, or what is wrong with it. */
function adoptedSettings(
  vm: Vm,
  pod: Pod,
  sources: Sources,
): Pick<Resolved, 'effective' | 'warnings'> | string {
  const effective = annotatedSettings(pod);
  if (effective === undefined) return 'cannot be read';
  const merged = mergedOver(vm, pod, effective, sources);
  if (merged.kind === 'refused') return `asks for what is refused: ${merged.message}`;
  const expected = EffectiveSettings.safeParse(merged.settings).data;
  if (expected === undefined || !isDeepStrictEqual(withoutRest(expected), withoutRest(effective)))
    return 'does not follow from the VM';
  const why = contradictionOfDisks(vm, effective, sources) ?? contradictionOfPod(pod, effective);
  return why ?? { effective, warnings: merged.warnings };
}

/** What of what the VM asks for is not so with these settings, which it has with the guest of a pool in this pod. */
export function warningsWith(
  vm: Vm,
  pod: Pod,
  effective: EffectiveSettings,
  sources: Sources,
): readonly string[] {
  const merged = mergedOver(vm, pod, effective, sources);
  return merged.kind === 'refused' ? [] : merged.warnings;
}

/**
 * The settings of a VM with this pod where these were in force last. A pod that was made with the changes has them, though the status does
 * not say so yet.
 */
export function settingsInForce(
  vm: Vm,
  pod: Pod,
  last: EffectiveSettings,
  { settings }: Pick<Sources, 'settings'>,
): Resolved {
  const frozen = withLiveSettings(vm, last);
  const inForce = { kind: 'resolved', effective: frozen, warnings: vm.status?.warnings ?? [] } as const;
  const another = anotherMedium(vm, frozen);
  // Once the status is of this pod it has what the pod was made with, and a medium that it lacks was taken out.
  const isNew = vm.status?.runner?.podUid !== pod.metadata.uid;
  const made = isNew ? annotatedSettings(pod) : undefined;
  const hasAnother = another !== undefined && made?.isoName === another && hasMedium(pod, made);
  const pinned = hasAnother ? made.iso : undefined;
  const changed = changedSettings(vm, frozen, settings, pinned);
  // What is allowed may be another by now than when the pod was made.
  const known = made === undefined ? [] : [changedInNextPod(vm, frozen, settings, pinned), changed];
  const taken = known.find((each) => each !== undefined && isDeepStrictEqual(made, each.effective));
  if (taken !== undefined) {
    const { effective, warnings } = taken;
    return { ...inForce, effective, warnings, ...refusalOf(taken) };
  }
  if (changed === undefined) return inForce;
  const { elsewhere } = changed;
  // Made for a guest that goes on from its memory, elsewhere.
  if (!isDeepStrictEqual(made, elsewhere)) return { ...inForce, ...waitingOf(changed) };
  const others = changedSettings(vm, elsewhere, settings, pinned);
  return { ...inForce, effective: elsewhere, ...(others === undefined ? {} : waitingOf(others)) };
}

function waitingOf(changed: Changed): Pick<Resolved, 'waiting' | 'atBoot' | 'refusal'> {
  const { fields, atBoot } = changed;
  return { waiting: fields, ...(atBoot === undefined ? {} : { atBoot }), ...refusalOf(changed) };
}

function refusalOf({ refusal }: Changed): Pick<Resolved, 'refusal'> {
  return refusal === undefined ? {} : { refusal };
}

/**
 * Settings follow from a VM where merging it over them, as over a VMConfig, changes nothing. What the installation has said since the pod was made
 * makes them no others.
 */
function mergedOver(vm: Vm, pod: Pod, effective: EffectiveSettings, sources: Sources): Effective {
  const { gpuPassthroughEnabled, hostPortsAllowed } = sources.settings;
  const spec = placedSpec(vm);
  const asked = askedFor(vm, sources);
  return effectiveSettings({
    spec,
    config:
      spec.config === undefined && spec.pool === undefined && spec === vm.spec
        ? undefined
        : asConfig(effective),
    image: {
      reference: effective.image,
      architecture: effective.architecture,
      // What the image's was where the VM says none: only what pulls the image knows.
      bytes: spec.disk?.size === undefined ? sizeOf(effective) : undefined,
      // The same of the guest whose memory the Image held: another may have been saved under its name.
      guest: effective.imageName === undefined ? undefined : { cpu: effective.cpu, memory: effective.memory },
      name: effective.imageName,
      namespace: effective.imageNamespace,
    },
    iso: effective.iso,
    gpuPassthroughEnabled: gpuPassthroughEnabled || asked.gpuPassthrough === 'Enabled',
    hostPortsAllowed,
    portsInForce: portsInForce(pod, effective, asked),
    portsLeftOut: effective.portsNotAllowed,
    services: servicesIn(effective),
  });
}

/** What the VM asks for, itself or by its VMPool or VMConfig as these are now. */
function askedFor(vm: Vm, sources: Sources): Pick<VmConfigSpec, 'gpuPassthrough' | 'ports'> {
  const { metadata, spec } = vm;
  const pool = spec.pool === undefined ? undefined : sources.vmPool?.(spec.pool, metadata.namespace);
  const asking = pool === undefined ? vm : templated(vm, pool);
  const key = configKeyOf(asking);
  const config = key === undefined ? undefined : sources.vmConfig(key.name, key.namespace);
  return { ...config?.spec, ...asking.spec };
}

/** Ports of the node that the installation may allow no more: the VM asks for them, and nobody can have given them to the pod since. */
function portsInForce(
  { spec }: Pod,
  { ports = [] }: EffectiveSettings,
  asked: Pick<VmConfigSpec, 'ports'>,
): EffectiveSettings['ports'] {
  const ofPod = spec.containers.flatMap((container) => container.ports ?? []);
  return ports.filter(
    ({ nodePort }) =>
      asked.ports?.some((port) => port.nodePort === nodePort) === true &&
      ofPod.some(({ hostPort }) => hostPort === nodePort),
  );
}

/** The services that had a port of the node where nobody asked: a VM may ask for both whatever the installation says. */
function servicesIn({ nodePorts }: EffectiveSettings): { ssh: boolean; screenshare: boolean } {
  return { ssh: nodePorts?.ssh !== 'Disabled', screenshare: nodePorts?.screenshare !== 'Disabled' };
}

function sizeOf({ disk }: EffectiveSettings): number | undefined {
  return disk?.size === undefined ? undefined : parseQuantity(disk.size, 'disk.size');
}

/** What of the spec has certainly been so when the pod was made: some fields may change later. */
function placedSpec({ metadata, spec }: Vm): VmSpec {
  if (metadata.generation === 1) return spec;
  const { config, image, architecture, powerState } = spec;
  return {
    powerState,
    ...(config === undefined ? {} : { config }),
    ...(image === undefined ? {} : { image }),
    ...(architecture === undefined ? {} : { architecture }),
  };
}

function contradictionOfDisks(
  { metadata, spec }: Vm,
  { image, imageName, iso }: EffectiveSettings,
  sources: Sources,
): string | undefined {
  const namespace = metadata.namespace;
  const imageOf = (name: string) => sources.image(name, namespace)?.status?.reference;
  const isoOf = (name: string) => sources.iso(name, namespace)?.status?.reference;
  if (spec.image !== undefined) {
    if (!isNamed(spec.image, image, imageOf)) return `names image ${image}`;
    // What a commit would change; a version before wrote no name.
    const name = parseImage(spec.image);
    const own = name.kind === 'object' ? name.name : undefined;
    if (imageName !== undefined && imageName !== own) return `names Image ${imageName}`;
  }
  // The medium can be taken out later.
  if (metadata.generation !== 1) return undefined;
  const isIso = isIsoOf(spec, iso, isoOf);
  return isIso ? undefined : `names ISO ${iso}`;
}

function isIsoOf(
  { iso: text, config, pool }: VmSpec,
  iso: string | undefined,
  isoOf: (name: string) => string | undefined,
): boolean {
  if (text === undefined) return iso === undefined || config !== undefined || pool !== undefined;
  return text === '' ? iso === undefined : isNamed(text, iso, isoOf);
}

/** Whether the medium that the annotation says is the one in the pod, which nobody can change. */
function hasMedium({ spec }: Pod, { iso = '' }: EffectiveSettings): boolean {
  const mounted = spec.volumes?.find(({ name }) => name === 'iso')?.image?.reference ?? '';
  return digestOf(mounted) === digestOf(iso);
}

/** Of the pod only what no webhook of a cluster rewrites. */
function contradictionOfPod({ spec }: Pod, effective: EffectiveSettings): string | undefined {
  const mounted = spec.volumes?.find(({ name }) => name === 'image')?.image?.reference ?? '';
  if (digestOf(mounted) !== digestOf(effective.image))
    return `says image ${effective.image}, the pod has ${mounted}`;
  const bundles = spec.containers[0]?.resources?.limits?.[extendedResources.gpuPassthrough];
  if ((bundles !== undefined) !== hasBundle(effective)) return 'and the pod do not agree on the GPU';
  return undefined;
}
