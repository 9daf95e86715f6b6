import { expect, test } from 'vitest';
import { labels } from '../../../../src/api/meta.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Caches } from '../../../../src/http/call/caches.ts';
import type { AccessAttributes, Caller } from '../../../../src/http/call/caller.ts';
import { visibleNamespaces } from '../../../../src/http/ui/rights.ts';

const listing = (...namespaces: readonly string[]) => ({
  objects: { list: () => namespaces.map((namespace) => ({ metadata: { namespace, name: 'one' } })) },
});
const reserved = (...namespaces: readonly string[]) => ({
  list: () =>
    namespaces.map((namespace) => ({ metadata: { name: 'one', labels: { [labels.namespace]: namespace } } })),
});
const caches = {
  vms: listing('vms', 'shared'),
  vmConfigs: listing('configs', 'shared'),
  vmPools: listing('pools', 'shared'),
  images: listing('images'),
  isos: listing('isos'),
  nodes: { list: () => [{ metadata: { name: 'one' } }] },
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

test('for who may reserve nodes also those that a node is reserved for, to give it back', async () => {
  const nodes = reserved('vms', 'empty', 'no namespace', '');
  const asked = { ...caches, nodes } as unknown as Caches;
  const { items } = await visibleNamespaces(callerIn(), asked, []);
  expect(items).toEqual(['configs', 'empty', 'images', 'isos', 'pools', 'shared', 'vms']);
  const others = await visibleNamespaces(callerIn(['empty', 'vms']), asked, []);
  expect(others.items).toEqual(['vms']);
});

test('however many there are, some at a time', async () => {
  const names = Array.from({ length: 600 }, (_, index) => `team-${String(index).padStart(3, '0')}`);
  const none = Object.fromEntries(Object.keys(caches).map((name) => [name, listing()]));
  const few = { ...caches, ...none, nodes: caches.nodes };
  let asking = 0;
  let most = 0;
  const caller = {
    authorize: async ({ namespace }: AccessAttributes) => {
      most = Math.max(most, (asking += 1));
      await Promise.resolve();
      asking -= 1;
      if (namespace !== names.at(-1)) throw new Svc3Error('Forbidden', 'not there');
    },
  } as unknown as Caller;
  expect(await visibleNamespaces(caller, few, names)).toEqual({ items: ['team-599'], all: false });
  expect(most).toBe(32);
});
