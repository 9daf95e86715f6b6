import { configKeyOf, namespaceOfDisk } from '../../../api/configkey.ts';
import type { PlannedSettings, Vm } from '../../../api/vm.ts';
import { templated } from '../facts/standby.ts';
import { effectiveSettings } from './effective.ts';
import { parseImage } from './imageref.ts';
import { savedGuestOf } from './savedguest.ts';
import type { ResolveSources } from './resolve.ts';

/**
 * What a VM that has never been placed would have if it were placed now; undefined where its VMConfig or VMPool is missing, it
 * names no image, or its settings are refused. Nothing is asked of a registry.
 */
export function plannedSettings(
  vm: Vm,
  sources: Omit<ResolveSources, 'answer'>,
): PlannedSettings | undefined {
  const { spec } = vm;
  if (spec.pool !== undefined) {
    const pool = sources.vmPool?.(spec.pool, vm.metadata.namespace);
    return pool === undefined ? undefined : plannedSettings(templated(vm, pool), sources);
  }
  const key = configKeyOf(vm);
  const config = key === undefined ? undefined : sources.vmConfig(key.name, key.namespace);
  const image = spec.image ?? config?.spec.image;
  if (image === undefined || (spec.config !== undefined && config === undefined)) return undefined;
  const named = parseImage(image);
  const stored =
    named.kind === 'object' ? sources.image(named.name, namespaceOfDisk(vm, 'image')) : undefined;
  const { gpuPassthroughEnabled, hostPortsAllowed } = sources.settings;
  const result = effectiveSettings({
    spec,
    config: config?.spec,
    image: {
      reference: image,
      architecture: stored?.status?.architecture,
      guest: savedGuestOf(stored, vm.metadata.namespace),
    },
    iso: undefined,
    gpuPassthroughEnabled,
    hostPortsAllowed,
    services: { ssh: true, screenshare: true },
  });
  if (result.kind === 'refused') return undefined;
  const { cpu, memory, gpuPassthrough, vncConsole, startDeadlineSeconds } = result.settings;
  const architecture = spec.architecture ?? config?.spec.architecture ?? stored?.status?.architecture;
  return {
    cpu,
    memory,
    gpuPassthrough,
    vncConsole,
    image,
    ...(architecture === undefined ? {} : { architecture }),
    ...(startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds }),
  };
}
