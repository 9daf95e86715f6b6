import { useState } from 'preact/hooks';
import type { NodeItem } from '../../../wire/schemas.ts';
import { call, inNamespace } from './api.ts';
import { FormDialog } from './formdialog.tsx';
import { keyOf, type Items } from './items.ts';
import { emptyText, useListing } from './listing.ts';
import { Act, Badge, Problem, Table, type Column } from './parts.tsx';
import { linkTo } from './place.ts';
import type { Rights } from './rights.ts';

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
];

/** What somebody is about to do to a node. */
interface Asked {
  readonly what: 'tag' | 'assign' | 'gpu';
  readonly node: string;
}

/** The nodes that take VMs, what is free on them, and who has their GPUs. */
export function Nodes({
  namespace,
  namespaces,
  items: { vms },
  isWhole,
  rights,
}: {
  readonly namespace: string;
  /** For which a node may be reserved. */
  readonly namespaces: readonly string[];
  readonly items: Items;
  /** Whether they have all VMs of this namespace, and of no other. */
  readonly isWhole: boolean;
  readonly rights: Rights;
}) {
  const listing = useListing<NodeItem>(inNamespace(namespace, 'nodes'));
  const { items, problem, again } = listing;
  const [asked, setAsked] = useState<Asked>();
  const [refusal, setRefusal] = useState<string>();
  const [said, setSaid] = useState('');
  const change = async (path: string, body: unknown): Promise<void> => {
    setSaid((await call<{ message: string }>('POST', path, body)).body.message);
    again();
  };
  const untag = (node: string) => (tag: string) =>
    change(inNamespace(namespace, 'nodes', node, 'untag'), { tag });
  return (
    <main>
      <h1>Nodes</h1>
      <Problem text={problem} />
      <Problem text={refusal} />
      <p role="status" class="help">
        {said}
      </p>
      <Table
        caption="Nodes"
        columns={[
          ...columns,
          { title: 'GPU of', cell: (node) => <GpuHolders node={node} vms={vms} isWhole={isWhole} /> },
          {
            title: 'Tags',
            cell: ({ name, tags }) => (
              <Tags
                tags={tags}
                node={name}
                {...(rights.has('untagNode') ? { remove: untag(name) } : {})}
                onProblem={setRefusal}
              />
            ),
          },
          { title: 'Actions', cell: ({ name }) => <Actions node={name} rights={rights} onAsk={setAsked} /> },
        ]}
        items={items ?? []}
        keyOf={({ name }) => name}
        empty={emptyText(listing, 'No node takes VMs.')}
      />
      {asked === undefined ? null : (
        <ChangeOfNode
          asked={asked}
          namespace={namespace}
          namespaces={namespaces}
          change={change}
          onClose={() => setAsked(undefined)}
        />
      )}
    </main>
  );
}

/** The VMs that have a node's GPUs; of one that is not shown only that there is one. */
function GpuHolders({
  node,
  vms,
  isWhole,
}: {
  readonly node: NodeItem;
  readonly vms: Items['vms'];
  readonly isWhole: boolean;
}) {
  const holders = [...vms.values()].filter((vm) => vm.node === node.name && vm.gpuPassthrough);
  if (node.allocatableGpu === 0 || holders.length === 0) {
    const isTaken = node.availableGpu < node.allocatableGpu;
    return <>{isWhole && isTaken ? 'A VM that is not shown here' : '–'}</>;
  }
  return (
    <>
      {holders.map((vm) => (
        <a key={keyOf(vm)} href={linkTo('vms', vm.namespace, vm.name)}>
          {keyOf(vm)}
        </a>
      ))}
    </>
  );
}

/** Asks for what the change needs, and says what it does. */
function ChangeOfNode({
  asked: { what, node },
  namespace,
  namespaces,
  change,
  onClose,
}: {
  readonly asked: Asked;
  readonly namespace: string;
  readonly namespaces: readonly string[];
  readonly change: (path: string, body: unknown) => Promise<void>;
  readonly onClose: () => void;
}) {
  const ofCluster = `/ui/api/v1/nodes/${encodeURIComponent(node)}`;
  if (what === 'tag')
    return (
      <FormDialog
        title={`Tag ${node}`}
        schema="TagRequest"
        verb="Tag"
        send={(body) => change(inNamespace(namespace, 'nodes', node, 'tag'), body)}
        onClose={onClose}
      >
        <p>VMs that ask for the tag prefer this node, or run on nodes with it only.</p>
      </FormDialog>
    );
  if (what === 'assign')
    return (
      <FormDialog
        title={`Reserve ${node}`}
        schema="AssignRequest"
        suggestions={{ namespace: namespaces }}
        verb="Reserve"
        send={(body) => change(`${ofCluster}/assign`, body)}
        onClose={onClose}
      >
        <p>
          New VMs of other namespaces are not placed there any more; VMs that are there stay. The node is then
          shown under that namespace only: choose it there to give the node back. Without a namespace it takes
          VMs of all.
        </p>
      </FormDialog>
    );
  return (
    <FormDialog
      title={`GPU passthrough of ${node}`}
      schema="GpuPassthroughRequest"
      verb="Set"
      send={(body) => change(`${ofCluster}/gpupassthrough`, body)}
      onClose={onClose}
    >
      <p>Where it is allowed, one VM at a time can have the GPUs, once the hardware qualifies.</p>
    </FormDialog>
  );
}

function Tags({
  tags,
  node,
  remove,
  onProblem,
}: {
  readonly tags: readonly string[];
  readonly node: string;
  /** Absent for who may not. */
  readonly remove?: (tag: string) => Promise<void>;
  readonly onProblem: (text: string | undefined) => void;
}) {
  if (tags.length === 0) return <>–</>;
  if (remove === undefined) return <>{tags.join(', ')}</>;
  return (
    <ul class="tags">
      {tags.map((tag) => (
        <li key={tag}>
          {tag}{' '}
          <Act
            label="Remove"
            aria-label={`Remove tag ${tag} of ${node}`}
            act={() => remove(tag)}
            onProblem={onProblem}
          />
        </li>
      ))}
    </ul>
  );
}

const verbs = [
  { what: 'tag', needs: 'tagNode', label: 'Tag' },
  { what: 'assign', needs: 'assignNode', label: 'Reserve' },
  { what: 'gpu', needs: 'allowGpuPassthrough', label: 'GPU' },
] as const;

function Actions({
  node,
  rights,
  onAsk,
}: {
  readonly node: string;
  readonly rights: Rights;
  readonly onAsk: (asked: Asked) => void;
}) {
  return (
    <span class="buttons">
      {verbs
        .filter(({ needs }) => rights.has(needs))
        .map(({ what, label }) => (
          <button
            key={what}
            type="button"
            aria-label={`${label} ${node}`}
            onClick={() => onAsk({ what, node })}
          >
            {label} …
          </button>
        ))}
    </span>
  );
}
