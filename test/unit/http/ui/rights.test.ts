import { expect, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Caches } from '../../../../src/http/server/caches.ts';
import type { AccessAttributes, Caller } from '../../../../src/http/server/caller.ts';
import { visibleNamespaces } from '../../../../src/http/ui/rights.ts';

const listing = (...namespaces: readonly string[]) => ({
  objects: { list: () => namespaces.map((namespace) => ({ metadata: { namespace, name: 'one' } })) },
});
const caches = {
  vms: listing('vms', 'shared'),
  vmConfigs: listing('configs', 'shared'),
  vmPools: listing('pools', 'shared'),
  images: listing('images'),
  isos: listing('isos'),
} as unknown as Caches;

/** Somebody who may list VMs in these namespaces; undefined: in all. */
const callerIn = (namespaces?: readonly string[]) =>
  ({
    authorize: ({ namespace = '' }: AccessAttributes) =>
      namespaces === undefined || namespaces.includes(namespace)
        ? Promise.resolve()
        : Promise.reject(new Svc3Error('Forbidden', 'not there')),
  }) as unknown as Caller;

test('namespaces to choose from are those that have anything of svc3', async () => {
  expect(await visibleNamespaces(callerIn(), caches, ['svc3-default'])).toEqual({
    items: ['configs', 'images', 'isos', 'pools', 'shared', 'svc3-default', 'vms'],
    all: true,
  });
});

test('of them, only those whose VMs may be listed', async () => {
  const caller = callerIn(['pools', 'svc3-default', 'elsewhere']);
  expect(await visibleNamespaces(caller, caches, ['svc3-default'])).toEqual({
    items: ['pools', 'svc3-default'],
    all: false,
  });
});
