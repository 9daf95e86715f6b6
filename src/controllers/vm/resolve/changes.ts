import { isDeepStrictEqual } from 'node:util';
import type { VmConfigSpec } from '../../../api/vmconfig.ts';
import {
  type EffectiveSettings,
  EffectiveSettings as schema,
  type Vm,
  type VmSpec,
} from '../../../api/vm.ts';
import { needsAnotherPod, placementFields, waitingFields } from '../../../api/vmchanges.ts';
import { effectiveSettings, notAllowed } from './effective.ts';
import { meaningOf, withoutRest } from './meaning.ts';
import { isPersistent } from '../facts/claim.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

/** The settings of a placed VM as its spec is now. */
export interface Changed {
  readonly effective: EffectiveSettings;
  /** Those in force with what a boot in the same pod can change; undefined where that is nothing. */
  readonly atBoot: EffectiveSettings | undefined;
  /** Those in force with what says only where the pod may be: a guest that goes on from its memory can have it. */
  readonly elsewhere: EffectiveSettings;
  /** What of the spec this installation refuses; the settings in force keep what they have. */
  readonly refusal: string | undefined;
  /** Fields of spec that differ from the settings in force. */
  readonly fields: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * What a VM's spec says over the settings that were frozen, for the pod that it has: a field that it does not name stays, and so does one of
 * which the installation refuses what is asked for. Undefined where nothing differs. Pure.
 *
 * @param pinnedIso - what another medium's name means; undefined where that is not known
 */
export function changedSettings(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
  pinnedIso?: string,
): Changed | undefined {
  const asked = isPersistent(frozen) ? askedOf(vm, frozen) : withoutLeftOut(vm, frozen);
  return changesOf(asked, frozen, settings, pinnedIso);
}

/** The same for a pod in which the guest may go on from its memory: mappings that the VM was placed without wait for no start of the guest. Pure. */
export function changedOverMemory(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
): Changed | undefined {
  return changesOf(withoutLeftOut(vm, frozen), frozen, settings, undefined);
}

/**
 * The same for a pod that is made anew: it has what the installation allows by now, also where nobody has changed the VM since it was placed
 * without it. Pure.
 */
export function changedInNextPod(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
  pinnedIso?: string,
): Changed | undefined {
  return changesOf({ ...askedOf(vm, frozen), isForNextPod: true }, frozen, settings, pinnedIso);
}

/** What a VM asks for: its spec over what it was placed with. */
interface Asked {
  readonly spec: VmSpec;
  readonly config: VmConfigSpec;
  readonly isForNextPod?: boolean;
}

function changesOf(
  { spec, config, isForNextPod = false }: Asked,
  frozen: EffectiveSettings,
  settings: VmSettings,
  pinnedIso: string | undefined,
): Changed | undefined {
  if (isAsPlaced({ spec, config }, frozen)) return undefined;
  const { image, imageName, imageNamespace, architecture } = frozen;
  const another = anotherMedium({ spec }, frozen);
  const iso = another === undefined ? frozen.iso : (pinnedIso ?? another);
  const merge = (asked: VmSpec, gpuPassthroughEnabled: boolean) =>
    effectiveSettings({
      spec: asked,
      config: isGpuChange(asked, frozen) ? withoutConsole(config) : config,
      image: { reference: image, architecture, name: imageName, namespace: imageNamespace },
      iso,
      gpuPassthroughEnabled,
      hostPortsAllowed: settings.hostPortsAllowed,
      portsInForce: frozen.ports,
      services: nodePortDefaults(settings),
    });
  const asked = merge(spec, settings.gpuPassthroughEnabled || frozen.gpuPassthrough === 'Enabled');
  const refusal = asked.kind === 'refused' ? asked.message : undefined;
  const merged = refusal === undefined ? asked : merge(withoutGpu(spec), true);
  if (merged.kind === 'refused') return undefined;
  const { settings: requested, warnings } = merged;
  const said = isForNextPod ? ofNextPod : ofPod;
  const fields = waitingFields.filter((field) => !isSame(said(requested, field), said(frozen, field)));
  if (fields.length === 0 && refusal === undefined) return undefined;
  const isoName = another === undefined ? {} : { isoName: another };
  const changedTo = (which: readonly string[]) => ({ ...frozen, ...pick(requested, which) });
  const notAllowed = fields.includes('ports') ? ['portsNotAllowed'] : [];
  const effective = parsed({
    ...changedTo([...fields, ...notAllowed]),
    ...isoName,
    disk: requested.disk,
  });
  const disk = { isPersistent: isPersistent(frozen) };
  const bootFields = fields.filter((field) => !needsAnotherPod(field, disk));
  const atBoot = bootFields.length === 0 ? undefined : parsed(changedTo(bootFields));
  const elsewhere = parsed(changedTo(fields.filter(isPlacementField)));
  return { effective, atBoot, elsewhere, refusal, fields, warnings };
}

/**
 * Whether the spec says nothing in other words than the settings in force, and no port is asked for that is not among them. That is quickly found
 * out, of most VMs, in every pass.
 */
function isAsPlaced({ spec, config }: Asked, { ports = [] }: EffectiveSettings): boolean {
  const placed: Named = config;
  const isNoOther = (field: keyof VmSpec) =>
    spec[field] === undefined || isDeepStrictEqual(spec[field], placed[field]);
  const isInForce = (asked: unknown) => ports.some((port) => isDeepStrictEqual(port, asked));
  return waitingFields.every(isNoOther) && (config.ports ?? []).every(isInForce);
}

/** As a pod's annotation says them: there a member that is undefined is none, and settings that have it would be others. */
function parsed(settings: Named): EffectiveSettings {
  return schema.parse(
    Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)),
  );
}

/** Whether a field says only where the pod may be. */
export function isPlacementField(field: string): boolean {
  return placementFields.some((each) => each === field);
}

/** Whether the two say the same of which node is chosen; a PriorityClass says nothing of that. */
export function isForSameNodes(one: EffectiveSettings, other: EffectiveSettings): boolean {
  return placementFields.every(
    (field) => field === 'priorityClassName' || isSame(ofPod(one, field), ofPod(other, field)),
  );
}

function askedOf({ spec }: Vm, frozen: EffectiveSettings): Asked {
  return { spec, config: asConfig(frozen) };
}

/**
 * The same without the mappings that the VM was placed without, since its installation did not allow them then: nobody has changed anything, and
 * the pod of an Ephemeral disk gets no other ports.
 */
function withoutLeftOut({ spec, status }: Vm, frozen: EffectiveSettings): Asked {
  const { portsNotAllowed: _notAllowed, ...placed } = frozen;
  const config = asConfig(placed);
  if (spec.ports === undefined) return { spec, config };
  const warnings = status?.warnings ?? [];
  const ports = spec.ports.filter(
    ({ nodePort }) =>
      nodePort === undefined || !warnings.some((each) => each.startsWith(notAllowed(nodePort))),
  );
  return { spec: { ...spec, ports }, config };
}

/** GPU passthrough is all that an installation refuses of a VM that has been placed. */
function withoutGpu({ gpuPassthrough: _gpuPassthrough, ...spec }: VmSpec): VmSpec {
  return spec;
}

/** On ARM it is always on, whatever the spec says. */
function isGpuChange({ gpuPassthrough }: VmSpec, frozen: EffectiveSettings): boolean {
  return (
    frozen.architecture === 'amd64' &&
    gpuPassthrough !== undefined &&
    gpuPassthrough !== frozen.gpuPassthrough
  );
}

/** Whether a VM with a GPU has no console follows from the GPU, so that what was frozen of it is nothing that anybody has asked for. */
function withoutConsole({ vncConsole: _vncConsole, ...config }: VmConfigSpec): VmConfigSpec {
  return config;
}

/** The medium that the spec names where that is not the one in force. To take it out needs no start. */
export function anotherMedium(
  { spec: { iso } }: Pick<Vm, 'spec'>,
  { isoName }: EffectiveSettings,
): string | undefined {
  return iso === undefined || iso === '' || iso === isoName ? undefined : iso;
}

/** What the spec is merged over; a medium is named there, as in a VMConfig, and ports are asked for whether or not they were allowed. */
export function asConfig(settings: EffectiveSettings): VmConfigSpec {
  const { isoName, iso: _iso, ports = [], portsNotAllowed = [], ...others } = withoutRest(settings);
  const asked = [...ports, ...portsNotAllowed];
  return {
    ...others,
    ...(asked.length === 0 ? {} : { ports: asked }),
    ...(isoName === undefined ? {} : { iso: isoName }),
  };
}

type Named = Readonly<Record<string, unknown>>;

function isSame(one: Partial<EffectiveSettings>, other: Partial<EffectiveSettings>): boolean {
  return isDeepStrictEqual(meaningOf(one), meaningOf(other));
}

/** Of the ports only those of the node are the pod's; what becomes of a data disk in the end is not. */
function ofPod(settings: EffectiveSettings, field: string): Partial<EffectiveSettings> {
  const { ports = [], disks = [] } = settings;
  if (field === 'ports') return { ports: ports.filter(({ nodePort }) => nodePort !== undefined) };
  if (field === 'disks') return { disks: disks.map(({ whenDeleted: _whenDeleted, ...disk }) => disk) };
  return pick(settings, [field]);
}

/** The next pod is made with the ports on its IP as well. */
function ofNextPod(settings: EffectiveSettings, field: string): Partial<EffectiveSettings> {
  const { ports = [] } = settings;
  return field === 'ports' ? { ports } : ofPod(settings, field);
}

function pick(settings: EffectiveSettings, fields: readonly string[]): Named {
  return Object.fromEntries(fields.map((field) => [field, (settings as Named)[field]]));
}
