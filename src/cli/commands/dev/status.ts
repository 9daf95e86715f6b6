import { Svc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import type { ClusterStatus } from '../../localcluster.ts';

export const devStatus = command({
  path: ['dev', 'status'],
  summary: 'Show the local cluster, or with -o env the settings of a shell for it',
  options: {
    name: { kind: 'text', placeholder: 'NAME', summary: 'Name of the cluster', fallback: 'default' },
  },
  outputs: ['env'],
  examples: [
    { line: 'svc3 dev status', summary: 'What runs' },
    { line: 'eval "$(svc3 dev status -o env)"', summary: 'KUBECONFIG and PATH for this shell' },
  ],
  async run({ out, localCluster, environment }, { options }) {
    const status = await (await localCluster()).status({ name: options.name });
    if (out.format === 'env') out.line(exportsOf(status, environment.variables['PATH'] ?? ''));
    else await out.value(status, description(status));
  },
});

/** Lines for `eval`; a folder that PATH has already is not added again. */
function exportsOf({ name, kubeconfig, bin }: ClusterStatus, path: string): string {
  if (kubeconfig === undefined)
    throw new Svc3Error('NotFound', `the local cluster ${name} is not up: svc3 dev up`);
  const lines = [`export KUBECONFIG=${shellQuoted(kubeconfig)}`];
  const missing = (bin ?? []).filter((folder) => !path.split(':').includes(folder));
  if (missing.length > 0) lines.push(`export PATH=${missing.map(shellQuoted).join(':')}:"$PATH"`);
  return lines.join('\n');
}

function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function description(status: ClusterStatus): string {
  const rows: (readonly [string, string | undefined])[] = [
    ['cluster', status.name],
    ['state', status.state],
    ['message', status.message],
    ['kubeconfig', status.kubeconfig],
    ['api', status.baseUrl],
    ['nodes', status.nodes?.join(', ')],
    ['from here', status.hostAccess],
    ...(status.components ?? []).map(
      (each) => ['component', [each.name, each.state, each.message].join(' ').trim()] as const,
    ),
  ];
  return rows
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key.padEnd(12)}${value}`)
    .join('\n');
}
