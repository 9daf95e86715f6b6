import { existsSync } from 'node:fs';
import { Svc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import { caFileOf, createConfigStore } from '../../config.ts';
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
    {
      line: 'eval "$(svc3 dev status -o env)"',
      summary: 'This shell is for this cluster: KUBECONFIG, PATH, SVC3_API_URL and SVC3_CA_FILE',
    },
  ],
  async run({ out, localCluster, environment }, { options }) {
    const status = await (await localCluster()).status({ name: options.name });
    if (out.format === 'env') {
      const caFile = caFileOf(createConfigStore(environment), status.name);
      const found = existsSync(caFile) ? caFile : undefined;
      out.line(exportsOf(status, { path: environment.variables['PATH'] ?? '', caFile: found }));
    } else await out.value(status, description(status));
  },
});

/** Lines for `eval`; a folder that PATH has already is not added again. */
export function exportsOf(
  { name, kubeconfig, bin, baseUrl }: ClusterStatus,
  { path, caFile }: { readonly path: string; readonly caFile: string | undefined },
): string {
  if (kubeconfig === undefined)
    throw new Svc3Error('NotFound', `the local cluster ${name} is not up: svc3 dev up`);
  const lines = [`export KUBECONFIG=${shellQuoted(kubeconfig)}`];
  // The configuration has those of one cluster, and there may be another.
  if (baseUrl !== undefined && caFile !== undefined)
    lines.push(`export SVC3_API_URL=${shellQuoted(baseUrl)}`, `export SVC3_CA_FILE=${shellQuoted(caFile)}`);
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
