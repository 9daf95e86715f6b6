/** Names that every part of svc3 agrees on. Constants only: importing this costs nothing. */

export const group = 'svc3.dev';
export const version = 'v1';
export const apiVersion = `${group}/${version}`;
/** Group of the aggregated API and of the rights that have no native object (`vms/exec`, `nodes/tag`, …). */
export const actionsGroup = 'api.svc3.dev';
/** Version of product, chart and API (spec: "Versioning"). */
export const productVersion = '3.0.0';
/** Category of all kinds: `kubectl get svc3`. */
export const category = 'svc3';

/** Field managers, by process: `metadata.managedFields` tells who wrote a field, and so does a conflict of server-side apply. */
export const fieldManagers = {
  operator: 'svc3',
  api: 'svc3-api',
  nodeAgent: 'svc3-node-agent',
  cli: 'svc3-cli',
} as const;
/** Finalizer on VM, RegistryCredential, Image and ISO. */
export const finalizer = 'svc3.dev/cleanup';

export const namespaces = {
  /** Operator and api. */
  system: 'svc3-system',
  /** Node agent; labelled privileged. */
  node: 'svc3-node',
  /** Basic-auth Secrets of registries. */
  credentials: 'svc3-credentials',
  /** ServiceAccounts of people (`svc3 user add`). */
  users: 'svc3-users',
  /** Where VMs go when nobody says otherwise. */
  default: 'svc3-default',
} as const;

export const labels = {
  /** On Nodes, `enabled`: written by the operator, true both ways. */
  gpuPassthrough: 'svc3.dev/gpu-passthrough',
  /** On Nodes, `true`: written by the cluster's administrator (spec: GPU passthrough rule 3). */
  allowGpuPassthrough: 'svc3.dev/allow-gpu-passthrough',
  /** On Nodes: `kvm` or `tcg`, overrides the chart value `accelerator`. */
  accelerator: 'svc3.dev/accelerator',
  /** On Nodes: the one namespace whose VMs this node takes. */
  namespace: 'svc3.dev/namespace',
  /** On Secrets in `svc3-credentials` that CLI or HTTP wrote: the operator may delete these. */
  managed: 'svc3.dev/managed',
  /** On pods and Secrets of a VM: its name. */
  vm: 'svc3.dev/vm',
  /** On pods of a pool, also once a VM has claimed them: its name. */
  pool: 'svc3.dev/pool',
  /** On claims that hold the disk of a VM, or may: `true`. */
  disk: 'svc3.dev/disk',
  /** On worker pods: the Image or ISO they work for. */
  image: 'svc3.dev/image',
  /** On ServiceAccounts in `svc3-users`. */
  user: 'svc3.dev/user',
  name: 'app.kubernetes.io/name',
  instance: 'app.kubernetes.io/instance',
  component: 'app.kubernetes.io/component',
  partOf: 'app.kubernetes.io/part-of',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

/** Prefix of tag labels on Nodes: `tag.svc3.dev/<tag>=true`. */
export const tagLabelPrefix = 'tag.svc3.dev/';

/** Label of a tag on a Node. */
export function tagLabel(tag: string): string {
  return `${tagLabelPrefix}${tag}`;
}

export const annotations = {
  /** On Nodes, JSON written by the node agent. */
  hardware: 'svc3.dev/hardware',
  /** On Nodes: why GPU passthrough is off. */
  gpuPassthroughReason: 'svc3.dev/gpu-passthrough-reason',
  /** On VMs: who deployed it. */
  owner: 'svc3.dev/owner',
  /** On VMs of the 2.4.x gateway: the configuration's name as the old client knows it. */
  virtualMachineName: 'svc3.dev/virtual-machine-name',
  /** On VMs, `true`: its deletion waits for no Image that its disk is being saved for. */
  deleteWithoutSaving: 'svc3.dev/delete-without-saving',
  /** On VMs, `true`, right before one is deleted that never ran: the disks go that were made for it, unless it has run by then. */
  neverRan: 'svc3.dev/never-ran',
  /**
   * On claims: UID of the VM whose disk it is, whose name stands in label `svc3.dev/vm`. It is no owner reference: that would
   * take the disk with the VM.
   */
  vmUid: 'svc3.dev/vm-uid',
  /** On claims: reference of the image that the disk was made on, or several with commas between (`diskImagesOf`). The disk holds only what has changed of that, and is nothing without it. */
  diskImage: 'svc3.dev/disk-image',
  /** On VM pods: what the runner must know of its VM (`RunnerSpec`), read through a downward API volume. */
  runnerSpec: 'svc3.dev/runner-spec',
  /**
   * On VMs: the place in a trace that its start belongs to (W3C `traceparent`), from whoever makes the VM; on VM pods, by the operator:
   * the trace of their start.
   */
  traceparent: 'svc3.dev/traceparent',
  /** On VM pods: public halves of the installation's control keys, read through a downward API volume. */
  controlKeys: 'svc3.dev/control-keys',
  /** On pods of VMs, pools and workers: what their own image is pulled with (`pullsWithText`). */
  pullsWith: 'svc3.dev/pulls-with',
  /** On pods of a pool: digest of the template that the pod was made from. */
  poolTemplate: 'svc3.dev/pool-template',
  /** On pods of a pool: digest of all that the pod was made from. */
  poolRevision: 'svc3.dev/pool-revision',
  /** On ServiceAccounts in `svc3-users`: the person's real name. */
  displayName: 'svc3.dev/display-name',
  /** On Secrets in `svc3-credentials` that CLI or HTTP wrote for a RegistryCredential that was there: its UID. Empty where they looked for one to delete the Secret. */
  credentialUid: 'svc3.dev/credential-uid',
  /** On ServiceAccounts that CLI or HTTP makes, until their role is bound: that role. */
  accountRole: 'svc3.dev/account-role',
} as const;

/** Conditions of Nodes that are ours; there only while they are true. */
export const nodeConditions = {
  /** A VM that has the node's GPUs cannot use them: a group is busy, a card does not reset. */
  gpuUnavailable: 'svc3.dev/GPUUnavailable',
} as const;

/** Extended resources that the node agent's device plugin advertises. */
export const extendedResources = {
  kvm: 'svc3.dev/kvm',
  gpuPassthrough: 'svc3.dev/gpu-passthrough',
} as const;

/** Environment of the runner: PCI addresses of the allocated bundle, comma-separated. */
export const gpuAddressesEnv = 'SVC3_GPU_PCI_ADDRESSES';

/** Names of single objects. */
export const objectNames = {
  /** The pull Secret of a namespace, `kubernetes.io/dockerconfigjson`. */
  pullSecret: 'svc3-registry-credentials',
  /** Service of the HTTP API in `svc3-system`, port 443. */
  apiService: 'svc3-api',
  /** Secret (`kubernetes.io/tls`) of the HTTP API in `svc3-system`. */
  apiTlsSecret: 'svc3-api-tls',
  /** Secret of each namespace with VMs whose metrics are served: entry `token` reads them. */
  metricsSecret: 'svc3-vm-metrics',
  /** Secret in `svc3-system` with the installation's Ed25519 control keys. */
  controlKeySecret: 'svc3-control-keys',
  /** ConfigMap in `svc3-node`, written by the operator only: hosts that nodes may trust without TLS verification. */
  insecureRegistries: 'svc3-insecure-registries',
  /** ConfigMap in `svc3-system` with what the chart's values say to the processes. */
  settings: 'svc3-settings',
  /** Lease of the operator's leader election in `svc3-system`. */
  operatorLease: 'svc3-operator',
  /** ServiceAccounts of our own processes. */
  operatorServiceAccount: 'svc3-operator',
  apiServiceAccount: 'svc3-api',
  nodeAgentServiceAccount: 'svc3-node-agent',
} as const;

/** Names of Images and ISOs, of `limits.nameLength` at most: they are also names of repositories in the store, so they follow both grammars. */
export const diskNamePattern = /^[a-z0-9]+([.-][a-z0-9]+)*$/;

export const limits = {
  /** VM, Image and ISO names. */
  nameLength: 63,
  /** VMConfig names. */
  configNameLength: 50,
  /** VMPool names: those of its pods, which are host names, have eight characters more. */
  poolNameLength: 40,
  cpu: { min: 1, max: 256 },
  /** Guest memory, quantities. */
  memory: { min: '64Mi', max: '16Ti' },
  /** Disk size, quantities. */
  diskSize: { min: '1Mi', max: '64Ti' },
  /**
   * Bytes of a VM's metadata, and of its SSH keys, as JSON. They travel to the runner in an annotation of its pod, and all
   * annotations of an object have 256 KiB: this leaves 64 KiB for the other settings.
   */
  metadataBytes: 160 * 1024,
  sshAuthorizedKeysBytes: 32 * 1024,
  /** User tokens live one hour (spec: "Limits"). */
  userTokenSeconds: 3600,
  /** Service account tokens live one year by default (spec: "Limits"). */
  serviceAccountTokenSeconds: 365 * 24 * 3600,
} as const;

export const defaults = {
  cpu: 3,
  /** 2.5Gi for each cpu where `memory` is unset. */
  memoryBytesPerCpu: 2_684_354_560,
  /** `timeout` of a deploy through HTTP or CLI. */
  startDeadlineSeconds: 600,
} as const;

/** First and last port of a range. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Host ports that `spec.ports` may name unless the chart value `hostPorts.allowed` says otherwise. */
export const defaultAllowedHostPorts: PortRange = { first: 20000, last: 29999 };

/** Host ports that no mapping may name, whatever the chart allows (contract: `reservedPorts`; NodePort range). */
export const forbiddenHostPorts: readonly PortRange[] = [
  { first: 22, last: 22 },
  { first: 443, last: 443 },
  { first: 5000, last: 5014 },
  { first: 5900, last: 5914 },
  { first: 5999, last: 6013 },
  { first: 6443, last: 6443 },
  { first: 8822, last: 8836 },
  { first: 30000, last: 32767 },
];

/** Ports inside the guest that svc3 reaches by itself. */
export const guestPorts = { ssh: 22, screenshare: 5900 } as const;

/** HTTPS port of the runner's control endpoint on the pod's IP. */
export const runnerPort = 8443;

/** HTTPS port of the runner's metrics on the pod's IP. */
export const metricsPort = 8444;

/** The raw VNC console on the pod's IP, where the installation wants it to be a port of the node. */
export const vncPodPort = 64_000;

/** From here on, one for each mapping of `spec.ports`: ways from a port of the node to a guest's port whose number is taken on the pod's IP. */
export const firstSparePodPort = vncPodPort + 1;

/** TCP ports of the pod's IP that are the runner's own: no port of the guest is open there under these numbers. */
export const ownPodPorts: readonly PortRange[] = [
  { first: runnerPort, last: metricsPort },
  { first: vncPodPort, last: vncPodPort + 32 },
];

export const podNamePrefix = 'svc3-vm-';

/** Of pods that a pool has made, whoever has them now. */
export const standbyNamePrefix = 'svc3-pool-';
