import type { Vm } from './vm.ts';

/** The VMConfig that a VM names; undefined where it names none. */
export function configKeyOf({
  metadata,
  spec,
}: Vm): { readonly name: string; readonly namespace: string } | undefined {
  if (spec.config === undefined) return undefined;
  return { name: spec.config, namespace: spec.configNamespace ?? metadata.namespace };
}

/** Where the name of a VM's image or medium is looked up: beside whoever says the name, the VM itself or its VMConfig. */
export function namespaceOfDisk({ metadata, spec }: Vm, field: 'image' | 'iso'): string {
  return (spec[field] === undefined ? spec.configNamespace : undefined) ?? metadata.namespace;
}

/** Index of VMs by the namespace of their VMConfig, where that is another than their own. */
export const configNamespaceIndex = {
  configNamespace: ({ metadata, spec }: Vm) =>
    spec.configNamespace === undefined || spec.configNamespace === metadata.namespace
      ? []
      : [spec.configNamespace],
};
