/** What VMs are and do: `svc3 vm list`, `get`, `explain`, `logs` and `top`. */
import { isSvc3Error, printable } from '../../../errors.ts';
import { command, type Command } from '../../command.ts';
import {
  allNamespacesOption,
  listOptions,
  showNamespaced,
  showNamespacedList,
  watchOption,
} from '../../listing.ts';
import { age, tableRows, type View } from '../../render.ts';
import { type Explanation, metricsGroup, type Service, type VmItem } from '../../service/types.ts';
import { vmTopView, vmView } from '../../views.ts';

const vmList = command({
  path: ['vm', 'list'],
  summary: 'List the VMs of a namespace',
  options: listOptions,
  onlyShows: true,
  examples: [
    { line: 'svc3 vm list', summary: 'All VMs of the namespace' },
    { line: 'svc3 vm list -n team-a -o wide', summary: 'With image, configuration and owner' },
    { line: "svc3 vm list -o json | jq -r '.[].name'", summary: 'For a script' },
  ],
  run: (context, { options }) => showNamespacedList(context, vmView, ({ vms }) => vms, options),
});

const vmGet = command({
  path: ['vm', 'get'],
  summary: 'Show one VM',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: watchOption,
  onlyShows: true,
  examples: [
    { line: 'svc3 vm get build-1', summary: 'Where it runs and how it is reached' },
    { line: 'svc3 vm get build-1 -o json | jq .ssh', summary: 'Its SSH port, for a script' },
  ],
  async run({ out, namespace, service, signal }, { arguments: { name }, options }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    if (options.watch) await out.watch(vmView, only(vms.watch(ns, signal), name));
    else await out.item(vmView, await vms.get(ns, name));
  },
});

async function* only(
  lists: AsyncIterable<readonly VmItem[]>,
  name: string,
): AsyncGenerator<readonly VmItem[]> {
  for await (const items of lists) yield items.filter((vm) => vm.name === name);
}

const vmExplain = command({
  path: ['vm', 'explain'],
  summary: 'Say why a VM is as it is: conditions, warnings, nodes, events',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  onlyShows: true,
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

type NodeColumn = View<NodeRow>['columns'][number];

/** Only of a VM that asks for a port of the node which is taken on one. */
const portsColumn: NodeColumn = {
  header: 'WITHOUT PORTS',
  value: ({ withoutPorts = [] }) => withoutPorts.join(', '),
};

/** Only of a VM that has a memory to go on from. */
const startColumn: NodeColumn = { header: 'START', value: ({ warmStart }) => startText(warmStart) };

function nodeViewOf(nodes: readonly NodeRow[]): View<NodeRow> {
  const hasPorts = nodes.some(({ withoutPorts }) => withoutPorts !== undefined);
  const hasStart = nodes.some(({ warmStart }) => warmStart !== undefined);
  const more = [...(hasPorts ? [portsColumn] : []), ...(hasStart ? [startColumn] : [])];
  return { ...nodeView, columns: [...nodeView.columns, ...more] };
}

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
    ...(nodes.length === 0 ? [] : table(nodeViewOf(nodes), nodes, now)),
    ...(events.length === 0 ? [] : table(eventView, events, now)),
  ].join('\n');
}

function table<T>(view: View<T>, rows: readonly T[], now: Date): string[] {
  const drawn = tableRows(view, rows, { wide: true, colour: false, now });
  return ['', drawn.header, ...drawn.rows];
}

const vmLogs = command({
  path: ['vm', 'logs'],
  summary: 'Show what a guest writes on its serial console, and what its runner and QEMU say',
  description:
    'It is the log of the pod that runs the VM now, read at kube-apiserver with the right to pods/log.',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {
    follow: { kind: 'flag', short: 'f', summary: 'Go on and print what comes, until Ctrl-C' },
    previous: {
      kind: 'flag',
      summary:
        'Of the container before, after the runner died; what a QEMU that died said is in the log without it',
    },
    tail: { kind: 'integer', placeholder: 'LINES', unit: 'lines', summary: 'Only so many lines of the end' },
  },
  onlyShows: true,
  examples: [
    { line: 'svc3 vm logs build-1', summary: 'All of it' },
    { line: 'svc3 vm logs build-1 -f --tail 20', summary: 'The last 20 lines and what comes' },
  ],
  async run({ environment, namespace, service, signal }, { arguments: { name }, options }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const { follow, previous, tail } = options;
    const request = { follow, previous, signal, ...(tail === undefined ? {} : { tail }) };
    for await (const bytes of vms.logs(ns, name, request)) environment.stdout.write(bytes);
  },
});

const vmTop = command({
  path: ['vm', 'top'],
  summary: 'Show the CPU and memory that VMs use, beside what they have',
  description:
    "CPU (1000m is one core) and MEMORY are those of the VM's pod, with QEMU and the runner, as metrics-server saw them last; they are read at kube-apiserver with the right to pods of metrics.k8s.io; with -A a warning names the namespaces without it. VM CPU and VM MEMORY are what the guest has. A pod without figures yet has dashes.",
  options: allNamespacesOption,
  onlyShows: true,
  examples: [
    { line: 'svc3 vm top', summary: 'VMs of the namespace' },
    { line: 'svc3 vm top -A', summary: 'Of all namespaces' },
  ],
  async run(context, { options }) {
    const unread: string[] = [];
    const inOne = async ({ vms }: Service, namespace: string) => {
      try {
        return await vms.top(namespace);
      } catch (error) {
        if (!options['all-namespaces'] || !areMetricsForbidden(error)) throw error;
        unread.push(namespace);
        return [];
      }
    };
    const inAll = ({ vms }: Service) => vms.topAll();
    const missing = () => missingSentence(unread);
    await showNamespaced(context, vmTopView, { inOne, inAll, missing }, options);
  },
});

/** The VMs may be listed, and what they use may not. */
function areMetricsForbidden(error: unknown): boolean {
  return isSvc3Error(error, 'Forbidden') && error.details.group === metricsGroup;
}

function missingSentence(namespaces: readonly string[]): string | undefined {
  if (namespaces.length === 0) return undefined;
  return `VMs of these namespaces are left out, you may not list pods of ${metricsGroup} there: ${namespaces.toSorted().join(', ')}`;
}

export const commands: readonly Command[] = [vmList, vmGet, vmExplain, vmLogs, vmTop];
