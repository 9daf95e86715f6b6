import { useState } from 'preact/hooks';
import type { VmPoolItem } from '../../../wire/vmschemas.ts';
import { call, inNamespace, pathOf } from './api.ts';
import { inOrder, namingColumns, stateColumn } from './columns.tsx';
import { namesIn } from './deploy.tsx';
import { SchemaForm } from './form.tsx';
import { FormDialog } from './formdialog.tsx';
import { keyOf, type Items } from './items.ts';
import { useFields } from './openapi.ts';
import { Confirm, Table, Waiting, type Column } from './parts.tsx';
import { type Rights, useRights } from './rights.ts';
import { scaleBody, scaleValues } from './scale.ts';

const first = ['name', 'vmConfig', 'image', 'cpu', 'memory', 'minIdle', 'maxSize', 'standby'];

/** What somebody is about to do to a pool. */
interface Asked {
  readonly what: 'scale' | 'delete';
  readonly pool: VmPoolItem;
}

/** VM pools: how many guests wait, how many VMs have one, and why fewer wait than should. */
export function Pools({
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
  const [asked, setAsked] = useState<Asked>();
  const [isMaking, setMaking] = useState(false);
  const close = (): void => setAsked(undefined);
  const columns: readonly Column<VmPoolItem>[] = [
    ...namingColumns<VmPoolItem>(namespace),
    stateColumn(),
    {
      title: 'Idle',
      cell: ({ idle, minIdle, preparing }) => (
        <>
          {idle} of {minIdle}
          {preparing === 0 ? null : <p class="why">{preparing} preparing</p>}
        </>
      ),
    },
    { title: 'Claimed', cell: ({ claimed }) => String(claimed) },
    { title: 'Max size', cell: ({ maxSize }) => (maxSize === undefined ? '–' : String(maxSize)) },
    {
      title: 'Guests',
      cell: (pool) => (
        <>
          {originOf(pool)}
          <p class="why">{pool.standby} while they wait</p>
        </>
      ),
    },
    { title: 'Actions', cell: (pool) => <Actions pool={pool} onAsk={setAsked} /> },
  ];
  return (
    <main>
      <div class="title">
        <h1>Pools</h1>
        {rights.has('createVmPool') ? (
          <button type="button" class="main" aria-expanded={isMaking} onClick={() => setMaking(!isMaking)}>
            New pool
          </button>
        ) : null}
      </div>
      {isMaking && rights.has('createVmPool') ? (
        <NewPool key={target} items={items} namespace={target} onMade={() => setMaking(false)} />
      ) : null}
      <Table
        caption="Pools"
        columns={columns}
        items={inOrder(items.vmPools)}
        keyOf={keyOf}
        empty={isKnown ? 'There are none here.' : 'Loading …'}
      />
      {asked?.what === 'scale' ? <Scale pool={asked.pool} onClose={close} /> : null}
      {asked?.what === 'delete' ? (
        <Confirm
          title={`Delete ${asked.pool.name}?`}
          verb="Delete"
          act={() => call('DELETE', pathOf('vmpools', asked.pool))}
          onClose={close}
        >
          <p>
            Guests that wait or are being booted end. VMs that have claimed one stay as they are; VMs that
            name the pool and are not deployed yet wait until there is one of that name again.
          </p>
        </Confirm>
      ) : null}
    </main>
  );
}

/** What the guests are made from. */
function originOf({ vmConfig, image }: VmPoolItem): string {
  const config = vmConfig === undefined ? [] : [`configuration ${vmConfig}`];
  return [...config, ...(image === undefined ? [] : [image])].join(', ');
}

function Actions({ pool, onAsk }: { readonly pool: VmPoolItem; readonly onAsk: (asked: Asked) => void }) {
  const rights = useRights(pool.namespace);
  return (
    <span class="buttons">
      {rights.has('scaleVmPool') ? (
        <button
          type="button"
          aria-label={`Scale ${pool.name}`}
          onClick={() => onAsk({ what: 'scale', pool })}
        >
          Scale …
        </button>
      ) : null}
      {rights.has('deleteVmPool') ? (
        <button
          type="button"
          class="danger"
          aria-label={`Delete ${pool.name}`}
          onClick={() => onAsk({ what: 'delete', pool })}
        >
          Delete …
        </button>
      ) : null}
    </span>
  );
}

function Scale({ pool, onClose }: { readonly pool: VmPoolItem; readonly onClose: () => void }) {
  return (
    <FormDialog
      title={`Scale ${pool.name}`}
      schema="VMPoolScaleRequest"
      initial={scaleValues(pool)}
      verb="Scale"
      send={(body) => call('POST', pathOf('vmpools', pool, { verb: 'scale' }), scaleBody(body, pool))}
      onClose={onClose}
    >
      <p>Guests that wait beyond the new number end; VMs of the pool stay, however many there are.</p>
    </FormDialog>
  );
}

function NewPool({
  items,
  namespace,
  onMade,
}: {
  readonly items: Items;
  readonly namespace: string;
  readonly onMade: () => void;
}) {
  const { fields, problem } = useFields('VMPoolRequest');
  if (fields === undefined) return <Waiting problem={problem} />;
  return (
    <SchemaForm
      fields={fields}
      first={first}
      suggestions={{
        vmConfig: namesIn(items.vmConfigs, namespace),
        image: namesIn(items.images, namespace),
        iso: namesIn(items.isos, namespace),
      }}
      about={`New pool in ${namespace}`}
      verb={`Create in ${namespace}`}
      send={(body) => call('POST', inNamespace(namespace, 'vmpools'), body)}
      onSent={onMade}
    />
  );
}
