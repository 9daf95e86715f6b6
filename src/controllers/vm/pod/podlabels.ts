import type { Pod } from '../../../api/core.ts';
import { group, labels } from '../../../api/meta.ts';
import type { Vm } from '../../../api/vm.ts';

/** Annotation on VM pods: the keys of the labels that come from the VM. Others, as a webhook's, are left alone. */
const vmLabelsAnnotation = 'svc3.dev/vm-labels';

type Labels = Readonly<Record<string, string>>;

/** Labels of a VM's pod that svc3 itself goes by. */
export function ownLabels(vmName: string): Labels {
  return {
    [labels.vm]: vmName,
    [labels.name]: 'svc3-vm',
    [labels.instance]: vmName,
    [labels.component]: 'vm',
    [labels.partOf]: 'svc3',
    [labels.managedBy]: 'svc3',
  };
}

/** The labels of a VM that its pod gets, so that Services and policies can select it: all but those that are svc3's. */
function fromVm({ metadata }: Vm): Labels {
  const own = ownLabels('');
  const isOurs = (key: string) => key in own || new RegExp(`^([^/]+\\.)?${group}/`).test(key);
  return Object.fromEntries(Object.entries(metadata.labels ?? {}).filter(([key]) => !isOurs(key)));
}

/** What stands in the metadata of a VM's pod for its labels. */
export function labelMetadata(vm: Vm): { readonly labels: Labels; readonly annotations: Labels } {
  const taken = fromVm(vm);
  const keys = Object.keys(taken).sort().join(',');
  return {
    labels: { ...taken, ...ownLabels(vm.metadata.name) },
    annotations: keys === '' ? {} : { [vmLabelsAnnotation]: keys },
  };
}

type LabelPatch = Readonly<Record<'labels' | 'annotations', Readonly<Record<string, string | null>>>>;

/** The merge patch of metadata that gives the pod the labels of its VM as they are now; undefined where it has them. Pure. */
export function labelPatch(vm: Vm, { metadata }: Pod): LabelPatch | undefined {
  const taken = fromVm(vm);
  const before = (metadata.annotations?.[vmLabelsAnnotation] ?? '').split(',').filter((key) => key !== '');
  const own = ownLabels('');
  const gone = before.filter((key) => !(key in taken) && !(key in own));
  const isSame = Object.entries(taken).every(([key, value]) => metadata.labels?.[key] === value);
  if (isSame && gone.length === 0) return undefined;
  const keys = Object.keys(taken).sort().join(',');
  return {
    labels: { ...Object.fromEntries(gone.map((key) => [key, null])), ...taken },
    annotations: { [vmLabelsAnnotation]: keys === '' ? null : keys },
  };
}
