import type { KubeObject, Resource } from './object.ts';
import type {
  ApiService,
  ClusterRoleBinding,
  ConfigMap,
  Deployment,
  Event,
  Lease,
  Namespace,
  Node,
  PersistentVolumeClaim,
  Pod,
  Role,
  RoleBinding,
  Secret,
  SelfSubjectAccessReview,
  SelfSubjectReview,
  Service,
  ServiceAccount,
} from './core.ts';
import type { Image, Iso } from './image.ts';
import { group, version } from './meta.ts';
import type { RegistryCredential } from './registrycredential.ts';
import type { Vm } from './vm.ts';
import type { VmConfig } from './vmconfig.ts';
import type { VmPool } from './vmpool.ts';

function own<T extends KubeObject>(plural: string, kind: string): Resource<T> {
  return { group, version, plural, kind, namespaced: true };
}

function foreign<T extends KubeObject>(
  group: string,
  plural: string,
  kind: string,
  scope: 'Namespaced' | 'Cluster' = 'Namespaced',
): Resource<T> {
  return { group, version: 'v1', plural, kind, namespaced: scope === 'Namespaced' };
}

export const vms = own<Vm>('vms', 'VM');
export const vmConfigs = own<VmConfig>('vmconfigs', 'VMConfig');
export const registryCredentials = own<RegistryCredential>('registrycredentials', 'RegistryCredential');
export const images = own<Image>('images', 'Image');
export const isos = own<Iso>('isos', 'ISO');
export const vmPools = own<VmPool>('vmpools', 'VMPool');

export const pods = foreign<Pod>('', 'pods', 'Pod');
export const nodes = foreign<Node>('', 'nodes', 'Node', 'Cluster');
export const secrets = foreign<Secret>('', 'secrets', 'Secret');
export const configMaps = foreign<ConfigMap>('', 'configmaps', 'ConfigMap');
export const namespaces = foreign<Namespace>('', 'namespaces', 'Namespace', 'Cluster');
export const services = foreign<Service>('', 'services', 'Service');
export const serviceAccounts = foreign<ServiceAccount>('', 'serviceaccounts', 'ServiceAccount');
export const persistentVolumeClaims = foreign<PersistentVolumeClaim>(
  '',
  'persistentvolumeclaims',
  'PersistentVolumeClaim',
);
export const events = foreign<Event>('events.k8s.io', 'events', 'Event');
export const leases = foreign<Lease>('coordination.k8s.io', 'leases', 'Lease');
export const deployments = foreign<Deployment>('apps', 'deployments', 'Deployment');
export const roles = foreign<Role>('rbac.authorization.k8s.io', 'roles', 'Role');
export const roleBindings = foreign<RoleBinding>('rbac.authorization.k8s.io', 'rolebindings', 'RoleBinding');
export const clusterRoleBindings = foreign<ClusterRoleBinding>(
  'rbac.authorization.k8s.io',
  'clusterrolebindings',
  'ClusterRoleBinding',
  'Cluster',
);
export const apiServices = foreign<ApiService>(
  'apiregistration.k8s.io',
  'apiservices',
  'APIService',
  'Cluster',
);
export const selfSubjectAccessReviews = foreign<SelfSubjectAccessReview>(
  'authorization.k8s.io',
  'selfsubjectaccessreviews',
  'SelfSubjectAccessReview',
  'Cluster',
);
export const selfSubjectReviews = foreign<SelfSubjectReview>(
  'authentication.k8s.io',
  'selfsubjectreviews',
  'SelfSubjectReview',
  'Cluster',
);

/** All kinds of svc3, in the order they are installed. */
export const ownResources: readonly Resource<KubeObject>[] = [
  vms,
  vmConfigs,
  registryCredentials,
  images,
  isos,
  vmPools,
];

/** `apiVersion` of a resource's objects: `v1`, `svc3.dev/v1`. */
export function apiVersionOf(resource: Resource<KubeObject>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** `apiVersion` and `kind`, to begin a new object with. */
export function typeMeta(resource: Resource<KubeObject>): { apiVersion: string; kind: string } {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind };
}
