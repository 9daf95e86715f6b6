import { useState } from 'preact/hooks';
import type { VmItem } from '../../../wire/vmschemas.ts';
import { keyOf, matchingVms, type Items } from './items.ts';
import { Badge, Table, type Column } from './parts.tsx';
import { linkTo } from './place.ts';

const states: readonly VmItem['status'][] = ['Pending', 'Running', 'Stopped', 'Suspended', 'Failed'];

const columns: readonly Column<VmItem>[] = [
  { title: 'Name', cell: (vm) => <a href={linkTo('vms', vm.namespace, vm.name)}>{vm.name}</a> },
  {
    title: 'State',
    cell: (vm) => (
      <>
        <Badge text={vm.status} />
        {vm.message === undefined ? null : <p class="why">{vm.message}</p>}
      </>
    ),
  },
  { title: 'Node', cell: (vm) => vm.node ?? '–' },
  { title: 'IP', cell: (vm) => vm.ip ?? '–' },
  { title: 'CPU', cell: (vm) => String(vm.cpu) },
  { title: 'Memory', cell: (vm) => vm.memory },
  { title: 'Image', cell: (vm) => vm.image ?? '–' },
];
const columnsOfAll: readonly Column<VmItem>[] = [
  { title: 'Namespace', cell: (vm) => vm.namespace },
  ...columns,
];

/** All VMs that the server tells of; what changes there changes here. */
export function Vms({
  items,
  namespace,
  isKnown,
  mayDeploy,
}: {
  readonly items: Items;
  readonly namespace: string;
  readonly isKnown: boolean;
  readonly mayDeploy: boolean;
}) {
  const [words, setWords] = useState('');
  const [status, setStatus] = useState('');
  const shown = matchingVms(items.vms.values(), words, status);
  const isFiltered = words.trim() !== '' || status !== '';
  const empty = isFiltered ? 'No VM matches.' : 'There are no VMs here.';
  return (
    <main>
      <div class="title">
        <h1>VMs</h1>
        {mayDeploy ? (
          <a class="button main" href={linkTo('deploy')}>
            Deploy a VM
          </a>
        ) : null}
      </div>
      <div class="filters" role="search">
        <label for="words">Search</label>
        <input
          id="words"
          type="search"
          value={words}
          placeholder="name, node, image, owner …"
          onInput={({ currentTarget }) => setWords(currentTarget.value)}
        />
        <label for="status">State</label>
        <select id="status" value={status} onChange={({ currentTarget }) => setStatus(currentTarget.value)}>
          <option value="">All</option>
          {states.map((state) => (
            <option key={state}>{state}</option>
          ))}
        </select>
        <output class="count">
          {shown.length} of {items.vms.size}
        </output>
      </div>
      <Table
        caption="VMs"
        columns={namespace === '' ? columnsOfAll : columns}
        items={shown}
        keyOf={keyOf}
        empty={isKnown ? empty : 'Loading …'}
      />
    </main>
  );
}
