import type { NodeItem } from '../../../wire/schemas.ts';
import { inNamespace } from './api.ts';
import { useListing } from './listing.ts';
import { Badge, Problem, Table, type Column } from './parts.tsx';

const columns: readonly Column<NodeItem>[] = [
  { title: 'Name', cell: ({ name }) => name },
  { title: 'State', cell: ({ phase }) => <Badge text={phase === 'READY' ? 'Ready' : 'Not ready'} /> },
  { title: 'CPU free', cell: ({ availableCpu, allocatableCpu }) => `${availableCpu} of ${allocatableCpu}` },
  {
    title: 'Memory free',
    cell: ({ availableMemory, allocatableMemory }) => `${availableMemory} of ${allocatableMemory}`,
  },
  {
    title: 'GPUs free',
    cell: ({ availableGpu, allocatableGpu, gpuPassthroughReason }) =>
      gpuPassthroughReason ?? `${availableGpu} of ${allocatableGpu}`,
  },
  { title: 'Architecture', cell: ({ architecture }) => architecture },
  { title: 'Tags', cell: ({ tags }) => tags.join(', ') || '–' },
];

/** The nodes that take VMs, and what is free on them. */
export function Nodes({ namespace }: { readonly namespace: string }) {
  const { items, problem } = useListing<NodeItem>(inNamespace(namespace, 'nodes'));
  return (
    <main>
      <h1>Nodes</h1>
      <Problem text={problem} />
      <Table
        caption="Nodes"
        columns={columns}
        items={items ?? []}
        keyOf={({ name }) => name}
        empty={items === undefined ? 'Loading …' : 'No node takes VMs.'}
      />
    </main>
  );
}
