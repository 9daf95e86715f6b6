import { labels } from '../../api/meta.ts';
import type { Route } from '../call/route.ts';
import { aggregatedRoutes } from './routes.ts';

const kinds = 'the kind itself, with kubectl and RBAC';
const longer = 'kube-apiserver ends a request that it passes on after 60 s';

/** What serves a row of `/api/v1` in Kubernetes' own API, and why the aggregated API does not where it does not. */
interface Elsewhere {
  /** In Kubernetes' own API. */
  readonly native?: string;
  /** Why it is not in the aggregated API. */
  readonly why?: string;
}

const vm = (what: string): Elsewhere => ({ native: `\`vms.svc3.dev\`: ${what}`, why: kinds });
const disk = (plural: 'images' | 'isos', what: string): Elsewhere => ({
  native: `\`${plural}.svc3.dev\`: ${what}`,
  why: kinds,
});
const vmConfig = (what: string): Elsewhere => ({ native: `\`vmconfigs.svc3.dev\`: ${what}`, why: kinds });
const vmPool = (what: string): Elsewhere => ({ native: `\`vmpools.svc3.dev\`: ${what}`, why: kinds });
const stream: Elsewhere = { why: `a WebSocket; ${longer}` };
const account = (what: string): Elsewhere => ({ native: `\`serviceaccounts\`: ${what}`, why: kinds });
const node = (what: string): Elsewhere => ({ native: `\`nodes\`: ${what}`, why: kinds });

/** By id of the route. */
const elsewhere: Readonly<Record<string, Elsewhere>> = {
  listVms: vm('get, list'),
  listAllVms: vm('list'),
  deployVm: vm('create'),
  getVm: vm('get'),
  patchVm: vm('patch'),
  deleteVm: vm('delete'),
  ejectVm: vm('`spec.iso: ""`'),
  explainVm: {
    why: "reads events, pods and nodes with the caller's token, which kube-apiserver keeps; `svc3 vm explain` reads them there itself",
  },
  getVmUsage: {
    native: '`pods.metrics.k8s.io`, where metrics-server is: CPU and memory of its pod',
    why: 'a subresource of `api.svc3.dev` would need a right of its own; who may `get` the VM may see what it uses',
  },
  execVm: { native: '`vms.svc3.dev`: `spec.powerState` and the requests beside it' },
  saveVm: { native: '`images.svc3.dev`: `spec.source.vm`' },
  commitVm: { native: '`images.svc3.dev`: `spec.commit`' },
  openConsole: { why: 'its reply is a ticket, which audit logs of kube-apiserver would hold' },
  streamConsole: stream,
  streamSerial: stream,
  streamTunnel: stream,
  listVmConfigs: vmConfig('list'),
  listAllVmConfigs: vmConfig('list'),
  createVmConfig: vmConfig('create'),
  getVmConfig: vmConfig('get'),
  deleteVmConfig: vmConfig('delete'),
  listVmPools: vmPool('list'),
  createVmPool: vmPool('create'),
  getVmPool: vmPool('get'),
  patchVmPool: vmPool('subresource `scale`, `spec.maxSize`'),
  scaleVmPool: vmPool('subresource `scale`, `spec.maxSize`'),
  deleteVmPool: vmPool('delete'),
  listNodes: {},
  getNode: {},
  tagNode: {},
  untagNode: {},
  assignNode: node(`label \`${labels.namespace}\``),
  allowGpuPassthrough: node(`label \`${labels.allowGpuPassthrough}\``),
  listImages: disk('images', 'list'),
  listAllImages: disk('images', 'list'),
  generateImage: disk('images', 'create with `spec.source.blank`'),
  getImage: disk('images', 'get'),
  deleteImage: disk('images', 'delete'),
  copyImage: disk('images', 'create with `spec.source.image`'),
  describeImage: disk('images', '`spec.description`'),
  downloadImage: {},
  uploadImage: {},
  getImageUpload: {},
  appendImageUpload: {},
  cancelImageUpload: {},
  listIsos: disk('isos', 'list'),
  getIso: disk('isos', 'get'),
  deleteIso: disk('isos', 'delete'),
  copyIso: disk('isos', 'create with `spec.source.image`'),
  describeIso: disk('isos', '`spec.description`'),
  downloadIso: {},
  uploadIso: {},
  getIsoUpload: {},
  appendIsoUpload: {},
  cancelIsoUpload: {},
  listRemoteImages: {},
  pullImage: disk('images', 'create with `spec.source.remote`'),
  listRemoteIsos: {},
  pullIso: disk('isos', 'create with `spec.source.remote`'),
  listRegistryCredentials: { native: '`registrycredentials.svc3.dev`: list', why: kinds },
  addRegistryCredential: {
    native: '`registrycredentials.svc3.dev` and a Secret: create',
    why: 'a password in the body, which audit logs of kube-apiserver would hold',
  },
  removeRegistryCredential: { native: '`registrycredentials.svc3.dev`: delete', why: kinds },
  listServiceAccounts: account('list'),
  createServiceAccount: account('create, and a RoleBinding'),
  deleteServiceAccount: account('delete'),
  createServiceAccountToken: account('subresource `token`'),
  getClusterInfo: {},
  getOidcClient: { why: 'for callers without a token, whom kube-apiserver takes for nobody' },
  uploadCertificate: {
    native: 'Secret `svc3-api-tls`',
    why: 'a private key in the body, which audit logs of kube-apiserver would hold',
  },
};

/** docs/surfaces.md. */
export function surfacesPage(routes: readonly Route[]): string {
  const served = new Map(aggregatedRoutes.map(({ id, path }) => [id.replace(/^aggregated /, ''), path]));
  const aliases: Readonly<Record<string, string>> = {
    listNodes: 'aggregatedListNodes',
    getNode: 'aggregatedGetNode',
  };
  const rows = routes.map(({ id, method, path }) => {
    const there = served.get(aliases[id] ?? id);
    const known = elsewhere[id];
    if (known === undefined) throw new Error(`${id} is missing in src/http/aggregated/surfaces.ts`);
    const { native = '', why = '' } = known;
    if ((there === undefined) === (why === ''))
      throw new Error(`${id} is served by the aggregated API or there is a reason why not, and not both`);
    return `| ${method} \`${path}\` | ${there === undefined ? '' : `\`${there}\``} | ${native} | ${why} |`;
  });
  return `# Which API serves what

Generated by \`npm run generate\` from the routes. The aggregated API serves with the identity that kube-apiserver has checked, and its RBAC; so does Kubernetes' own for the kinds. Where a
row is empty in both, \`/api/v1\` alone serves it, with a bearer token.

| \`/api/v1\` | aggregated API \`api.svc3.dev/v1\` | Kubernetes' own API | why it is not in the aggregated API |
|---|---|---|---|
${rows.join('\n')}
`;
}
