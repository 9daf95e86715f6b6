import type { NodeItem } from '../../wire/node.ts';
import { groupVersion } from './discovery.ts';
import type { RemoteItem } from '../../wire/schemas.ts';
import type { NodeObject, RemoteObject } from './schemas.ts';

/** A node as an object of the aggregated API. */
export function nodeObject(item: NodeItem): NodeObject {
  const { name, namespace, ...rest } = item;
  return { apiVersion: groupVersion, kind: 'Node', metadata: { name, namespace }, ...rest };
}

const column = (name: string, type: string, description: string, priority = 0) => ({
  name,
  type,
  format: name === 'Name' ? 'name' : '',
  description,
  priority,
});

const nodeColumns = [
  column('Name', 'string', 'Name of the node.'),
  column('Phase', 'string', 'Whether the node is ready.'),
  column('CPU', 'string', 'CPUs that are free, of all.'),
  column('Memory', 'string', 'Memory that is free, of all.'),
  column('GPU', 'boolean', 'Whether GPU passthrough is on.'),
  column('Architecture', 'string', 'Architecture of the node.'),
  column('IP', 'string', 'Address of the node.', 1),
  column('Tags', 'string', 'Tags of the node.', 1),
];

/** How much of an object its row holds (`includeObject`): kubectl asks for all of it where it sorts by a field. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

export function nodeTable(
  items: readonly NodeItem[],
  include: IncludeObject | undefined,
): Record<string, unknown> {
  return table(
    include,
    nodeColumns,
    items.map((item) => ({
      cells: [
        item.name,
        item.phase,
        `${item.availableCpu}/${item.allocatableCpu}`,
        `${item.availableMemory}/${item.allocatableMemory}`,
        item.gpuPassthrough,
        item.architecture,
        item.nodeIP,
        item.tags.join(','),
      ],
      object: nodeObject(item),
    })),
  );
}

export function remoteObject(
  { name, kind: type, tags }: RemoteItem,
  kind: RemoteObject['kind'],
  namespace: string,
): RemoteObject {
  return {
    apiVersion: groupVersion,
    kind,
    metadata: { name, namespace },
    ...(type === undefined ? {} : { type }),
    ...(tags === undefined ? {} : { tags: [...tags] }),
  };
}

const remoteColumns = [
  column('Name', 'string', 'Reference of what the registry holds.'),
  column('Type', 'string', 'Whether it is an image or an ISO, where that is known.'),
  column('Tags', 'string', 'Its tags.', 1),
];

export function remoteTable(
  items: readonly RemoteObject[],
  include: IncludeObject | undefined,
): Record<string, unknown> {
  return table(
    include,
    remoteColumns,
    items.map((object) => ({
      cells: [object.metadata.name, object.type ?? '', (object.tags ?? []).join(',')],
      object,
    })),
  );
}

interface Row {
  readonly cells: readonly unknown[];
  readonly object: NodeObject | RemoteObject;
}

/** meta.k8s.io/v1 Table, what kubectl shows. */
function table(
  include: IncludeObject | undefined,
  columnDefinitions: readonly object[],
  rows: readonly Row[],
): Record<string, unknown> {
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: {},
    columnDefinitions,
    rows: rows.map(({ cells, object }) => ({ cells, ...included(object, include) })),
  };
}

function included(object: Row['object'], include: IncludeObject | undefined): { readonly object?: object } {
  if (include === 'None') return {};
  if (include === 'Object') return { object };
  const { metadata } = object;
  return { object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata } };
}

/** Whether the client prefers a Table: kubectl names it first in Accept. */
export function wantsTable(accept: string | undefined): boolean {
  const first = accept?.split(',', 1)[0] ?? '';
  return first.includes('as=Table') && first.includes('g=meta.k8s.io');
}
