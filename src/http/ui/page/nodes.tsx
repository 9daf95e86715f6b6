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
  rights,
}: {
  readonly namespace: string;
  /** For which a node may be reserved. */
  readonly namespaces: readonly string[];
  readonly items: Items;
  readonly rights: Rights;
}) {
  const listing = useListing<NodeItem>(inNamespace(namespace, 'nodes'));
  const { items, problem, again } = listing;
  const [asked, setAsked] = useState<Asked>();
  const [refusal, setRefusal] = useState<string>();
  const [said, setSaid] = useState('');
  const close = (): void => setAsked(undefined);
  const change = async (path: string, body: unknown): Promise<void> => {
    setSaid((await call<{ message: string }>('POST', path, body)).body.message);
    again();
  };
  const ofNode = (node: string, verb: string): string => inNamespace(namespace, 'nodes', node, verb);
  const ofCluster = (node: string, verb: string): string =>
    `/ui/api/v1/nodes/${encodeURIComponent(node)}/${verb}`;
  const holders = ({ name }: NodeItem) =>
    [...vms.values()].filter(({ node, gpuPassthrough }) => node === name && gpuPassthrough);
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
          {
            title: 'GPU of',
            cell: (node) =>
              node.allocatableGpu === 0 || holders(node).length === 0
                ? '–'
                : holders(node).map((vm) => (
                    <a key={keyOf(vm)} href={linkTo('vms', vm.namespace, vm.name)}>
                      {keyOf(vm)}
                    </a>
                  )),
          },
          {
            title: 'Tags',
            cell: ({ name, tags }) => (
              <Tags
                tags={tags}
                node={name}
                {...(rights.has('untagNode')
                  ? { remove: (tag: string) => change(ofNode(name, 'untag'), { tag }) }
                  : {})}
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
      {asked?.what === 'tag' ? (
        <FormDialog
          title={`Tag ${asked.node}`}
          schema="TagRequest"
          verb="Tag"
          send={(body) => change(ofNode(asked.node, 'tag'), body)}
          onClose={close}
        >
          <p>VMs that ask for the tag prefer this node, or run on nodes with it only.</p>
        </FormDialog>
      ) : null}
      {asked?.what === 'assign' ? (
        <FormDialog
          title={`Reserve ${asked.node}`}
          schema="AssignRequest"
          suggestions={{ namespace: namespaces }}
          verb="Reserve"
          send={(body) => change(ofCluster(asked.node, 'assign'), body)}
          onClose={close}
        >
          <p>
            New VMs of other namespaces are not placed there any more, and it is not in their lists; VMs that
            are there stay. Without a namespace it takes those of all.
          </p>
        </FormDialog>
      ) : null}
      {asked?.what === 'gpu' ? (
        <FormDialog
          title={`GPU passthrough of ${asked.node}`}
          schema="GpuPassthroughRequest"
          verb="Set"
          send={(body) => change(ofCluster(asked.node, 'gpupassthrough'), body)}
          onClose={close}
        >
          <p>Where it is allowed, one VM at a time can have the GPUs, once the hardware qualifies.</p>
        </FormDialog>
      ) : null}
    </main>
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
