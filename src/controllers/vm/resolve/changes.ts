import { isDeepStrictEqual } from 'node:util';
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
 */
export function changedSettings(
  vm: Vm,
  frozen: EffectiveSettings,
  settings: VmSettings,
): Changed | undefined {
  // As it was created, or only just placed.
  if (vm.metadata.generation === 1) return undefined;
  const { image, imageName, imageNamespace, architecture, iso } = frozen;
  const { gpuPassthroughEnabled, hostPortsAllowed } = settings;
  const merged = effectiveSettings({
    spec: vm.spec,
    config: frozen,
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
  const effective = schema.parse({ ...frozen, ...pick(requested, fields), disk: requested.disk });
  const disk = { isPersistent: isPersistent(frozen) };
  const bootFields = fields.filter((field) => !needsAnotherPod(field, disk));
  const atBoot =
    bootFields.length === 0 ? undefined : schema.parse({ ...frozen, ...pick(requested, bootFields) });
  return { effective, atBoot, fields, warnings };
}

type Named = Readonly<Record<string, unknown>>;

function isSame(one: EffectiveSettings, other: EffectiveSettings, field: string): boolean {
  return isDeepStrictEqual(valueOf(one, field), valueOf(other, field));
}

/** An empty list says no more than none. Of the ports only those of the node are the pod's. */
function valueOf(settings: EffectiveSettings, field: string): unknown {
  const value =
    field === 'ports'
      ? settings.ports?.filter(({ nodePort }) => nodePort !== undefined)
      : (settings as Named)[field];
  return Array.isArray(value) && value.length === 0 ? undefined : value;
}

function pick(settings: EffectiveSettings, fields: readonly string[]): Named {
  return Object.fromEntries(fields.map((field) => [field, (settings as Named)[field]]));
}
