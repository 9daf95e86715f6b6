import type { Image, Iso } from '../../api/image.ts';
import { group } from '../../api/meta.ts';
import { Svc3Error } from '../../errors.ts';
import type { Services } from '../server/services.ts';

/** `registry/name` of a reference with or without digest. */
function repositoryOf(reference: string | undefined): string | undefined {
  return reference?.split('@', 1)[0];
}

/** Names of the VMs that run from (or have in their drive) this image. */
function usersOf(services: Services, disk: Image | Iso, field: 'image' | 'iso'): string[] {
  const { name = '', namespace = '' } = disk.metadata;
  const stored = repositoryOf(disk.status?.reference);
  return services.caches.vms.objects
    .list(namespace)
    .filter((vm) => {
      const effective = vm.status?.effective?.[field];
      if (effective !== undefined && stored !== undefined && repositoryOf(effective) === stored) return true;
      const config =
        vm.spec.config === undefined
          ? undefined
          : services.caches.vmConfigs.objects.get(vm.spec.config, namespace);
      return (vm.spec[field] ?? config?.spec[field]) === name;
    })
    .map((vm) => vm.metadata.name ?? '')
    .sort();
}

/** @throws Conflict that names the VMs which use it. */
export function refuseWhileUsed(services: Services, disk: Image | Iso, field: 'image' | 'iso'): void {
  const users = usersOf(services, disk, field);
  if (users.length === 0) return;
  const shown =
    users.length > 10 ? `${users.slice(0, 10).join(', ')} and ${users.length - 10} more` : users.join(', ');
  const { name = '' } = disk.metadata;
  throw new Svc3Error(
    'Conflict',
    `${field} ${name} is in use by ${users.length === 1 ? 'VM' : 'VMs'} ${shown}`,
    {
      details: {
        group,
        kind: field === 'image' ? 'images' : 'isos',
        name,
        causes: [{ field, message: `in use by ${shown}` }],
      },
    },
  );
}
