import { isDeepStrictEqual } from 'node:util';
import type { VmConfigSpec } from '../../../api/vmconfig.ts';
import { type EffectiveSettings, EffectiveSettings as schema, type Vm } from '../../../api/vm.ts';
import { needsAnotherPod, waitingFields } from '../../../api/vmchanges.ts';
import { effectiveSettings } from './effective.ts';
import { isPersistent } from '../pod/claim.ts';
import { nodePortDefaults, type VmSettings } from '../settings.ts';

/** The settings of a placed VM as its spec is now. */
export interface Changed {
  readonly effective: EffectiveSettings;
  /** Those in force with what a boot in the same pod can change; undefined where that is nothing. */
  readonly atBoot: EffectiveSettings | undefined;
  /** Fields of spec that differ from the settings in force. */
  readonly fields: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * What a VM's spec says over the settings that were frozen: a field that it does not name stays. Undefined where nothing differs, or
 * the installation refuses what is asked for. Pure.
 *
 * @param pinnedIso - what another medium's name means; undefined where that is not known
 */
export function changedSettings(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
  pinnedIso?: string,
): Changed | undefined {
  // As it was created, or only just placed.
  if (vm.metadata.generation === 1) return undefined;
  const { image, imageName, imageNamespace, architecture } = frozen;
  const another = anotherMedium(vm, frozen);
  const iso = another === undefined ? frozen.iso : (pinnedIso ?? another);
  const { gpuPassthroughEnabled, hostPortsAllowed } = settings;
  const merged = effectiveSettings({
    spec: vm.spec,
    config: asConfig(frozen),
    image: { reference: image, architecture, name: imageName, namespace: imageNamespace },
    iso,
    gpuPassthroughEnabled,
    hostPortsAllowed,
    services: nodePortDefaults(settings),
  });
  if (merged.kind === 'refused') return undefined;
  const { settings: requested, warnings } = merged;
  const fields = waitingFields.filter((field) => !isSame(requested, frozen, field));
  if (fields.length === 0) return undefined;
  const isoName = another === undefined ? {} : { isoName: another };
  // One that says nothing of its disk says so in the pod's annotation, too: a member that is undefined would be another thing.
  const itsDisk = requested.disk === undefined ? {} : { disk: requested.disk };
  const effective = schema.parse({ ...frozen, ...pick(requested, fields), ...isoName, ...itsDisk });
  const disk = { isPersistent: isPersistent(frozen) };
  const bootFields = fields.filter((field) => !needsAnotherPod(field, disk));
  const atBoot =
    bootFields.length === 0 ? undefined : schema.parse({ ...frozen, ...pick(requested, bootFields) });
  return { effective, atBoot, fields, warnings };
}

/** The medium that the spec names where that is not the one in force. To take it out needs no start. */
export function anotherMedium({ spec: { iso } }: Vm, { isoName }: EffectiveSettings): string | undefined {
  return iso === undefined || iso === '' || iso === isoName ? undefined : iso;
}

/** What the spec is merged over; a medium is named there, as in a VMConfig. */
export function asConfig({ isoName, iso: _iso, ...others }: EffectiveSettings): VmConfigSpec {
  return { ...others, ...(isoName === undefined ? {} : { iso: isoName }) };
}

type Named = Readonly<Record<string, unknown>>;

function isSame(one: EffectiveSettings, other: EffectiveSettings, field: string): boolean {
  return isDeepStrictEqual(valueOf(one, field), valueOf(other, field));
}

/** An empty list says no more than none. */
function valueOf(settings: EffectiveSettings, field: string): unknown {
  const value = ofPod(settings, field);
  return Array.isArray(value) && value.length === 0 ? undefined : value;
}

/** Of the ports only those of the node are the pod's; what becomes of a data disk in the end is not. */
function ofPod(settings: EffectiveSettings, field: string): unknown {
  if (field === 'ports') return settings.ports?.filter(({ nodePort }) => nodePort !== undefined);
  if (field === 'disks') return settings.disks?.map(({ whenDeleted: _whenDeleted, ...disk }) => disk);
  return (settings as Named)[field];
}

function pick(settings: EffectiveSettings, fields: readonly string[]): Named {
  return Object.fromEntries(fields.map((field) => [field, (settings as Named)[field]]));
}
