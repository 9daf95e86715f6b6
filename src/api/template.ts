import type { VmSpec } from './vm.ts';

/** Whether settings that the VM does not say were read elsewhere when it was placed. */
export function hasTemplate({ config, pool }: VmSpec): boolean {
  return config !== undefined || pool !== undefined;
}

/**
 * The settings that say what applies at once where the VM says nothing. Of one without a template its spec alone does: what was taken out of it since
 * the VM was placed is asked for no more.
 */
export function inherited<T>(spec: VmSpec, effective: T | undefined): T | undefined {
  return hasTemplate(spec) ? effective : undefined;
}
