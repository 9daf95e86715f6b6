/** One set of binaries that is built together from one pinned Go module below `controlplane/`. */
export interface ToolGroup {
  readonly name: string;
  /** Folder below `controlplane/` that holds the go.mod. */
  readonly module: string;
  /** Name of the binary → Go package it is built from. */
  readonly binaries: Readonly<Record<string, string>>;
  readonly tags?: readonly string[];
  /** Needs gcc, pkg-config and this C library. */
  readonly cLibrary?: string;
  /** String variables set by the linker: variable → Go module whose pinned version it gets. */
  readonly versions?: Readonly<Record<string, string>>;
}

const kubernetesVersion = { 'k8s.io/component-base/version.gitVersion': 'k8s.io/kubernetes' };
const containerd = 'github.com/containerd/containerd/v2';
const cniPlugins = 'github.com/containernetworking/plugins';

export const toolGroups = {
  controlplane: {
    name: 'controlplane',
    module: 'kubernetes',
    binaries: {
      etcd: 'go.etcd.io/etcd/server/v3',
      'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
      kubectl: 'k8s.io/kubernetes/cmd/kubectl',
      'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
      'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
    },
    versions: kubernetesVersion,
  },
  kubelet: {
    name: 'kubelet',
    module: 'kubernetes',
    binaries: {
      kubelet: 'k8s.io/kubernetes/cmd/kubelet',
      'kube-proxy': 'k8s.io/kubernetes/cmd/kube-proxy',
    },
    versions: kubernetesVersion,
  },
  node: {
    name: 'node',
    module: 'node',
    binaries: {
      containerd: `${containerd}/cmd/containerd`,
      'containerd-shim-runc-v2': `${containerd}/cmd/containerd-shim-runc-v2`,
      ctr: `${containerd}/cmd/ctr`,
      bridge: `${cniPlugins}/plugins/main/bridge`,
      loopback: `${cniPlugins}/plugins/main/loopback`,
      'host-local': `${cniPlugins}/plugins/ipam/host-local`,
      portmap: `${cniPlugins}/plugins/meta/portmap`,
    },
    tags: ['no_btrfs', 'no_devmapper', 'no_zfs'],
    versions: { [`${containerd}/version.Version`]: containerd },
  },
  runc: {
    name: 'runc',
    module: 'runc',
    binaries: { runc: 'github.com/opencontainers/runc' },
    tags: ['seccomp'],
    cLibrary: 'libseccomp',
  },
  helm: {
    name: 'helm',
    module: 'helm',
    binaries: { helm: 'helm.sh/helm/v4/cmd/helm' },
    versions: { 'helm.sh/helm/v4/internal/version.version': 'helm.sh/helm/v4' },
  },
  dns: {
    name: 'dns',
    module: 'dns',
    binaries: { coredns: 'svc3.dev/controlplane/dns' },
  },
  metrics: {
    name: 'metrics',
    module: 'metrics',
    binaries: { 'metrics-server': 'sigs.k8s.io/metrics-server/cmd/metrics-server' },
    versions: { 'sigs.k8s.io/metrics-server/pkg/version.gitVersion': 'sigs.k8s.io/metrics-server' },
  },
  kwok: {
    name: 'kwok',
    module: 'kwok',
    binaries: { kwok: 'sigs.k8s.io/kwok/cmd/kwok' },
    versions: { 'sigs.k8s.io/kwok/pkg/consts.Version': 'sigs.k8s.io/kwok' },
  },
  oidc: {
    name: 'oidc',
    module: 'oidc',
    binaries: { 'oidc-issuer': 'svc3.dev/controlplane/oidc' },
  },
  collector: {
    name: 'collector',
    module: 'collector',
    binaries: { otelcol: 'svc3.dev/controlplane/collector' },
  },
  registry: {
    name: 'registry',
    module: 'registry',
    binaries: { registry: 'github.com/distribution/distribution/v3/cmd/registry' },
    versions: {
      'github.com/distribution/distribution/v3/version.version': 'github.com/distribution/distribution/v3',
    },
  },
} as const satisfies Record<string, ToolGroup>;

export type ToolGroupName = keyof typeof toolGroups;

export function isToolGroupName(name: string): name is ToolGroupName {
  return Object.hasOwn(toolGroups, name);
}
