import { actionsGroup, productVersion, version } from '../../api/meta.ts';

export const groupVersion = `${actionsGroup}/${version}`;
export const root = `/apis/${groupVersion}`;

interface ApiResource {
  readonly name: string;
  readonly singularName: string;
  readonly namespaced: boolean;
  readonly kind: string;
  readonly verbs: readonly string[];
  readonly shortNames?: readonly string[];
}

const uploading = ['create', 'get', 'patch', 'delete'];

/**
 * What the aggregated API has. No resource can be watched or deleted, so that neither garbage collector nor namespace
 * controller come by.
 */
export const resources: readonly ApiResource[] = [
  { name: 'nodes', singularName: 'node', namespaced: true, kind: 'Node', verbs: ['get', 'list'] },
  { name: 'nodes/tag', singularName: '', namespaced: true, kind: 'NodeTag', verbs: ['create'] },
  { name: 'nodes/untag', singularName: '', namespaced: true, kind: 'NodeTag', verbs: ['create'] },
  { name: 'vms/exec', singularName: '', namespaced: true, kind: 'VMExec', verbs: ['create'] },
  { name: 'vms/save', singularName: '', namespaced: true, kind: 'VMSave', verbs: ['create'] },
  { name: 'vms/commit', singularName: '', namespaced: true, kind: 'VMCommit', verbs: ['create'] },
  { name: 'images/download', singularName: '', namespaced: true, kind: 'ImageDownload', verbs: ['get'] },
  { name: 'images/upload', singularName: '', namespaced: true, kind: 'ImageUpload', verbs: uploading },
  { name: 'isos/download', singularName: '', namespaced: true, kind: 'ISODownload', verbs: ['get'] },
  { name: 'isos/upload', singularName: '', namespaced: true, kind: 'ISOUpload', verbs: uploading },
  {
    name: 'remoteimages',
    singularName: 'remoteimage',
    namespaced: true,
    kind: 'RemoteImage',
    verbs: ['list'],
  },
  { name: 'remoteisos', singularName: 'remoteiso', namespaced: true, kind: 'RemoteISO', verbs: ['list'] },
  {
    name: 'clusterinfos',
    singularName: 'clusterinfo',
    namespaced: false,
    kind: 'ClusterInfo',
    verbs: ['get'],
  },
];

const groupVersionOf = { groupVersion, version };
const group = {
  kind: 'APIGroup',
  apiVersion: 'v1',
  name: actionsGroup,
  versions: [groupVersionOf],
  preferredVersion: groupVersionOf,
};

export const discovery: Readonly<Record<string, unknown>> = {
  '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [group] },
  [`/apis/${actionsGroup}`]: group,
  [root]: { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources },
  '/openapi/v3': {
    paths: { [root.slice(1)]: { serverRelativeURL: `/openapi/v3${root}?hash=${productVersion}` } },
  },
};
