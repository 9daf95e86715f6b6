import type { Explanation } from '../../../wire/vmschemas.ts';
import { Problem, Table, type Column } from './parts.tsx';
import { timeOf } from './time.ts';

type Condition = Explanation['conditions'][number];
type Event = Explanation['events'][number];
type Verdict = NonNullable<Explanation['nodes']>[number];

const conditionColumns: readonly Column<Condition>[] = [
  { title: 'Condition', cell: ({ type }) => type },
  { title: 'Status', cell: ({ status }) => status },
  { title: 'Reason', cell: ({ reason }) => reason },
  { title: 'Message', cell: ({ message }) => message },
  { title: 'Since', cell: ({ lastTransitionTime }) => timeOf(lastTransitionTime) },
];
const eventColumns: readonly Column<Event>[] = [
  { title: 'Time', cell: ({ time }) => timeOf(time) },
  { title: 'Type', cell: ({ type }) => type },
  { title: 'Reason', cell: ({ reason }) => reason },
  { title: 'Message', cell: ({ message }) => message },
];
const nodeColumns: readonly Column<Verdict>[] = [
  { title: 'Node', cell: ({ node }) => node },
  { title: 'Fits', cell: ({ fits }) => (fits ? 'Yes' : 'No') },
  { title: 'Reasons', cell: ({ reasons }) => reasons.join('; ') },
];

/** Only where a port of the node that the VM asks for is taken. */
const portsColumn: Column<Verdict> = {
  title: 'Without ports',
  cell: ({ withoutPorts = [] }) => withoutPorts.join(', '),
};

/** Only where the VM has a memory to go on from. */
const startColumn: Column<Verdict> = { title: 'Start', cell: ({ warmStart }) => startText(warmStart) };

function startText(start: Verdict['warmStart']): string {
  if (start === undefined) return '';
  return start.fromMemory ? 'warm' : `cold: ${start.message}`;
}

function columnsFor(nodes: readonly Verdict[]): readonly Column<Verdict>[] {
  const hasPorts = nodes.some(({ withoutPorts }) => withoutPorts !== undefined);
  const hasStart = nodes.some(({ warmStart }) => warmStart !== undefined);
  return [...nodeColumns, ...(hasPorts ? [portsColumn] : []), ...(hasStart ? [startColumn] : [])];
}

/** Why a VM is as it is: conditions, what each node says of it while it has none, events. */
export function Explained({
  explanation,
  problem,
  isPlaced,
}: {
  readonly explanation: Explanation | undefined;
  readonly problem: string | undefined;
  readonly isPlaced: boolean;
}) {
  const { conditions = [], events = [], nodes = [] } = explanation ?? {};
  return (
    <>
      <h2>Conditions</h2>
      <Problem text={problem} />
      <Table
        caption="Conditions"
        columns={conditionColumns}
        items={conditions}
        keyOf={({ type }) => type}
        empty={explanation === undefined ? (problem === undefined ? 'Loading …' : 'Not known.') : 'None yet.'}
      />
      {nodes.length === 0 || isPlaced ? null : (
        <>
          <h2>Nodes</h2>
          <Table
            caption="Nodes"
            columns={columnsFor(nodes)}
            items={nodes}
            keyOf={({ node }) => node}
            empty="None."
          />
        </>
      )}
      <h2>Events</h2>
      <Table
        caption="Events"
        columns={eventColumns}
        items={events.toReversed()}
        keyOf={({ time, reason, message }) => `${time} ${reason} ${message}`}
        empty="None, or you may not see them."
      />
    </>
  );
}
