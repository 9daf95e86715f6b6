import type { ImageItem } from '../../../wire/schemas.ts';
import type { VmConfigItem, VmItem, VmPoolItem } from '../../../wire/vmschemas.ts';

/** What the page is told of by the server, by `namespace/name`. */
export interface Items {
  readonly vms: ReadonlyMap<string, VmItem>;
  readonly images: ReadonlyMap<string, ImageItem>;
  readonly isos: ReadonlyMap<string, ImageItem>;
  readonly vmConfigs: ReadonlyMap<string, VmConfigItem>;
  readonly vmPools: ReadonlyMap<string, VmPoolItem>;
}

export type Kind = keyof Items;

export interface Named {
  readonly name: string;
  readonly namespace: string;
}

type Snapshot = { readonly [K in keyof Items]?: readonly Named[] };
type Changes = {
  readonly [K in keyof Items]?: { readonly changed: readonly Named[]; readonly gone: readonly string[] };
};

export const noItems: Items = {
  vms: new Map(),
  images: new Map(),
  isos: new Map(),
  vmConfigs: new Map(),
  vmPools: new Map(),
};

export function keyOf({ namespace, name }: Named): string {
  return `${namespace}/${name}`;
}

const kinds = ['vms', 'images', 'isos', 'vmConfigs', 'vmPools'] as const;

/** Of a `snapshot`, and what was told of it before as each `part`. */
export function itemsOf(...snapshot: readonly Snapshot[]): Items {
  const maps = kinds.map((kind) => [
    kind,
    new Map(snapshot.flatMap((part) => (part[kind] ?? []).map((item) => [keyOf(item), item]))),
  ]);
  return Object.fromEntries(maps);
}

/** The kinds that a `snapshot` names: those that may be listed. */
export function kindsIn(snapshot: Snapshot): ReadonlySet<Kind> {
  return new Set(kinds.filter((kind) => snapshot[kind] !== undefined));
}

/** After a `change`; what did not change stays the same map. */
export function changedItems(items: Items, changes: Changes): Items {
  const maps = kinds.map((kind) => {
    const change = changes[kind];
    if (change === undefined) return [kind, items[kind]];
    const map = new Map<string, Named>(items[kind]);
    for (const item of change.changed) map.set(keyOf(item), item);
    for (const key of change.gone) map.delete(key);
    return [kind, map];
  });
  return Object.fromEntries(maps);
}

/** VMs whose text holds every word, in the order of namespace and name; `status` empty: of any. */
export function matchingVms(vms: Iterable<VmItem>, words: string, status: string): VmItem[] {
  const wanted = words
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const ofState = [...vms].filter((vm) => status === '' || vm.status === status);
  const found =
    wanted.length === 0
      ? ofState
      : ofState.filter((vm) => {
          const {
            name,
            namespace,
            status: state,
            message,
            node,
            ip,
            cpu,
            memory,
            image,
            vmConfig,
            owner,
          } = vm;
          const text = [name, namespace, state, message, node, ip, cpu, memory, image, vmConfig, owner]
            .join(' ')
            .toLowerCase();
          return wanted.every((word) => text.includes(word));
        });
  // Texts are put together once for each, not for each comparison.
  return found
    .map((vm) => ({ vm, key: keyOf(vm) }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ vm }) => vm);
}
