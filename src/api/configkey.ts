import type { NamespacedMeta } from './object.ts';
import type { Vm, VmSpec } from './vm.ts';

/** As much of a VM as says which VMConfig, Image and ISO it names. */
export interface NamingVm {
  readonly metadata: Pick<NamespacedMeta, 'namespace'>;
  readonly spec: Pick<VmSpec, 'config' | 'configNamespace' | 'image' | 'iso'>;
}

/** The VMConfig that a VM names; undefined where it names none. */
export function configKeyOf({
  metadata,
  spec,
}: NamingVm): { readonly name: string; readonly namespace: string } | undefined {
  if (spec.config === undefined) return undefined;
  return { name: spec.config, namespace: spec.configNamespace ?? metadata.namespace };
}

/** Where the name of a VM's image or medium is looked up: beside whoever says the name, the VM itself or its VMConfig. */
export function namespaceOfDisk({ metadata, spec }: NamingVm, field: 'image' | 'iso'): string {
  return (spec[field] === undefined ? spec.configNamespace : undefined) ?? metadata.namespace;
}

/** Index of VMs by the namespace of their VMConfig, where that is another than their own. */
export const configNamespaceIndex = {
  configNamespace: ({ metadata, spec }: Vm) =>
    spec.configNamespace === undefined || spec.configNamespace === metadata.namespace
      ? []
      : [spec.configNamespace],
};
