import { configKeyOf, namespaceOfDisk } from '../api/configkey.ts';
import type { Image, Iso } from '../api/image.ts';
import { group } from '../api/meta.ts';
import type { Vm } from '../api/vm.ts';
import type { VmConfig } from '../api/vmconfig.ts';
import { Svc3Error } from '../errors.ts';

/** Everything that may use a disk of a namespace, as far as whoever asks may see it. */
export interface PossibleUsers {
  readonly vms: readonly Vm[];
  config(name: string, namespace: string): VmConfig | undefined;
}

/** `registry/name` of a reference with or without digest. */
function repositoryOf(reference: string | undefined): string | undefined {
  return reference?.split('@', 1)[0];
}

/** Names of the VMs that run from (or have in their drive) this disk, or will as soon as they start; nobody starts from nothing. */
function usersOf({ vms, config }: PossibleUsers, disk: Image | Iso, field: 'image' | 'iso'): string[] {
  const stored = repositoryOf(disk.status?.reference);
  return vms
    .filter((vm) => {
      const { spec, status } = vm;
      const effective = status?.effective?.[field];
      if (effective !== undefined && stored !== undefined && repositoryOf(effective) === stored) return true;
      if (effective === undefined && disk.status?.digest === undefined) return false;
      if (namespaceOfDisk(vm, field) !== disk.metadata.namespace) return false;
      const key = configKeyOf(vm);
      const configured = key === undefined ? undefined : config(key.name, key.namespace)?.spec[field];
      return (spec[field] ?? configured) === disk.metadata.name;
    })
    .map(({ metadata: { name, namespace } }) =>
      namespace === disk.metadata.namespace ? name : `of namespace ${namespace}`,
    )
    .filter((name, index, all) => all.indexOf(name) === index)
    .sort();
}

/** @throws Svc3Error Conflict that names the VMs which use it. */
export function refuseWhileUsed(users: PossibleUsers, disk: Image | Iso, field: 'image' | 'iso'): void {
  const names = usersOf(users, disk, field);
  if (names.length === 0) return;
  const more = names.length > 10 ? ` and ${names.length - 10} more` : '';
  const shown = `${names.slice(0, 10).join(', ')}${more}`;
  const { name } = disk.metadata;
  const whose = names.length === 1 ? 'VM' : 'VMs';
  throw new Svc3Error('Conflict', `${field} ${name} is in use by ${whose} ${shown}`, {
    details: { group, kind: `${field}s`, name, causes: [{ field, message: `in use by ${shown}` }] },
  });
}
