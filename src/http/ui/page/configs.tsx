import { useState } from 'preact/hooks';
import type { VmConfigItem } from '../../../wire/vmschemas.ts';
import { call, inNamespace, pathOf } from './api.ts';
import { inOrder, namingColumns, stateColumn } from './columns.tsx';
import { namesIn } from './deploy.tsx';
import { SchemaForm } from './form.tsx';
import { keyOf, type Items } from './items.ts';
import { useFields } from './openapi.ts';
import { Confirm, Table, Waiting, type Column } from './parts.tsx';
import { type Rights, useRights } from './rights.ts';

const first = ['name', 'image', 'cpu', 'memory', 'gpuPassthrough'];

/** VM configurations: defaults that a VM can name. */
export function Configs({
  items,
  namespace,
  target,
  isKnown,
  rights,
}: {
  readonly items: Items;
  readonly namespace: string;
  readonly target: string;
  readonly isKnown: boolean;
  readonly rights: Rights;
}) {
  const [going, setGoing] = useState<VmConfigItem>();
  const [isMaking, setMaking] = useState(false);
  const columns: readonly Column<VmConfigItem>[] = [
    ...namingColumns<VmConfigItem>(namespace),
    stateColumn(),
    { title: 'Image', cell: ({ image }) => image ?? '–' },
    { title: 'CPU', cell: ({ cpu }) => (cpu === undefined ? '–' : String(cpu)) },
    { title: 'Memory', cell: ({ memory }) => (memory === undefined ? '–' : `${memory} GiB`) },
    {
      title: 'Actions',
      cell: (config) => <Deletion config={config} onDelete={() => setGoing(config)} />,
    },
  ];
  return (
    <main>
      <div class="title">
        <h1>Configurations</h1>
        {rights.has('createVmConfig') ? (
          <button type="button" class="main" aria-expanded={isMaking} onClick={() => setMaking(!isMaking)}>
            New configuration
          </button>
        ) : null}
      </div>
      {isMaking ? <NewConfig items={items} namespace={target} onMade={() => setMaking(false)} /> : null}
      <Table
        caption="Configurations"
        columns={columns}
        items={inOrder(items.vmConfigs)}
        keyOf={keyOf}
        empty={isKnown ? 'There are none here.' : 'Loading …'}
      />
      {going === undefined ? null : (
        <Confirm
          title={`Delete ${going.name}?`}
          verb="Delete"
          act={() => call('DELETE', pathOf('vmconfigs', going))}
          onClose={() => setGoing(undefined)}
        >
          <p>
            VMs that were placed keep the settings that they have of it; VMs that wait for a node do not find
            it any more.
          </p>
        </Confirm>
      )}
    </main>
  );
}

function Deletion({
  config: { namespace, name },
  onDelete,
}: {
  readonly config: VmConfigItem;
  readonly onDelete: () => void;
}) {
  if (!useRights(namespace).has('deleteVmConfig')) return null;
  return (
    <button type="button" class="danger" aria-label={`Delete ${name}`} onClick={onDelete}>
      Delete …
    </button>
  );
}

function NewConfig({
  items,
  namespace,
  onMade,
}: {
  readonly items: Items;
  readonly namespace: string;
  readonly onMade: () => void;
}) {
  const { fields, problem } = useFields('VMConfigRequest');
  if (fields === undefined) return <Waiting problem={problem} />;
  return (
    <SchemaForm
      fields={fields}
      first={first}
      suggestions={{ image: namesIn(items.images, namespace), iso: namesIn(items.isos, namespace) }}
      about={`New configuration in ${namespace}`}
      verb={`Create in ${namespace}`}
      send={(body) => call('POST', inNamespace(namespace, 'vmconfigs'), body)}
      onSent={onMade}
    />
  );
}
