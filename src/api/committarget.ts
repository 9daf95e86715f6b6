import type { Vm } from './vm.ts';

/** The Image whose new version the disk of a VM may become, or why there is none. */
export type CommitTarget =
  | { readonly kind: 'image'; readonly name: string }
  | { readonly kind: 'none'; readonly message: string };

/**
 * The only place that decides what a commit changes: HTTP API, CLI and operator ask here. The name was frozen when the VM was
 * first placed: a VMConfig that names another image since then says nothing about this disk.
 */
export function commitTarget({ metadata, spec, status }: Vm): CommitTarget {
  const none = (why: string): CommitTarget => ({ kind: 'none', message: `VM ${metadata.name} ${why}` });
  const { effective } = status ?? {};
  if (effective === undefined) return none('has not been placed yet: it has no disk');
  const { imageName, imageNamespace } = effective;
  if (imageNamespace !== undefined)
    return none(`runs from Image ${imageName} of namespace ${imageNamespace}: save it under a name instead`);
  if (imageName !== undefined) return { kind: 'image', name: imageName };
  // A VM that was placed before names were frozen; spec.image cannot change after creation.
  if (spec.image !== undefined && !spec.image.includes('/')) return { kind: 'image', name: spec.image };
  return none(`runs from registry reference ${effective.image}: save it under a name instead`);
}

/** Why a VM must not be committed to this Image; undefined where it runs from it. */
export function commitRefusal(vm: Vm, image: string): string | undefined {
  const target = commitTarget(vm);
  if (target.kind === 'none') return target.message;
  if (target.name === image) return undefined;
  return `VM ${vm.metadata.name} runs from Image ${target.name} and not from this one`;
}
