import { command } from '../../command.ts';
import { age, printable, tableRows, type View } from '../../render.ts';
import type { Explanation } from '../../service/types.ts';

export const vmExplain = command({
  path: ['vm', 'explain'],
  summary: 'Say why a VM is as it is: conditions, warnings, nodes, events',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  examples: [
    { line: 'svc3 vm explain build-1', summary: 'Why it does not run' },
    { line: 'svc3 vm explain build-1 -o yaml', summary: 'With all times' },
  ],
  async run({ out, namespace, service, environment }, { arguments: { name } }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const explanation = await vms.explain(ns, name);
    await out.value(explanation, page(explanation, environment.now()));
  },
});

type ConditionRow = Explanation['conditions'][number];
type EventRow = Explanation['events'][number];

const conditionView: View<ConditionRow> = {
  kind: 'condition',
  name: ({ type }) => type,
  columns: [
    { header: 'CONDITION', value: ({ type }) => type },
    { header: 'STATUS', value: ({ status }) => status },
    { header: 'REASON', value: ({ reason }) => reason },
    { header: 'SINCE', value: ({ lastTransitionTime }, now) => age(lastTransitionTime, now) },
    { header: 'MESSAGE', value: ({ message }) => message },
  ],
};

type NodeRow = NonNullable<Explanation['nodes']>[number];

const nodeView: View<NodeRow> = {
  kind: 'node',
  name: ({ node }) => node,
  columns: [
    { header: 'NODE', value: ({ node }) => node },
    { header: 'FITS', value: ({ fits }) => (fits ? 'yes' : 'no') },
    { header: 'FREE', value: ({ free }) => `${free}%` },
    { header: 'REASONS', value: ({ reasons }) => reasons.join(', ') },
  ],
};

/** Only of a VM that has a memory to go on from. */
const startView: View<NodeRow> = {
  ...nodeView,
  columns: [...nodeView.columns, { header: 'START', value: ({ warmStart }) => startText(warmStart) }],
};

function startText(start: NodeRow['warmStart']): string {
  if (start === undefined) return '';
  return start.fromMemory ? 'warm' : `cold: ${start.message}`;
}

const eventView: View<EventRow> = {
  kind: 'event',
  name: ({ reason }) => reason,
  columns: [
    { header: 'EVENT', value: ({ reason }) => reason },
    { header: 'TYPE', value: ({ type }) => type },
    { header: 'AGO', value: ({ time }, now) => age(time, now) },
    { header: 'MESSAGE', value: ({ message }) => message },
  ],
};

function page({ item, conditions, warnings, nodes = [], events }: Explanation, now: Date): string {
  const node = item.node === undefined ? '' : ` on node ${item.node}`;
  const why = item.message === undefined ? '' : `: ${printable(item.message)}`;
  return [
    `vm ${item.name} is ${item.status}${node}${why}`,
    ...warnings.map((warning) => `Warning: ${printable(warning)}`),
    ...(conditions.length === 0
      ? ['Nothing is known about it yet: is the operator running?']
      : table(conditionView, conditions, now)),
    ...(nodes.length === 0 ? [] : table(hasStart(nodes) ? startView : nodeView, nodes, now)),
    ...(events.length === 0 ? [] : table(eventView, events, now)),
  ].join('\n');
}

function hasStart(nodes: readonly NodeRow[]): boolean {
  return nodes.some(({ warmStart }) => warmStart !== undefined);
}

function table<T>(view: View<T>, rows: readonly T[], now: Date): string[] {
  const drawn = tableRows(view, rows, { wide: true, colour: false, now });
  return ['', drawn.header, ...drawn.rows];
}
