/**
 * The parts of Kubernetes' own kinds that svc3 reads or writes, as plain structure. Fields that nobody here uses are
 * left out; objects that came from the server still hold them.
 */
import type { Condition, KubeObject, ObjectMeta } from './object.ts';
import type { Toleration } from './vmconfig.ts';

interface Named extends KubeObject {
  metadata: ObjectMeta;
}

export interface LocalObjectReference {
  name: string;
}

export interface ObjectReference {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
  fieldPath?: string;
}

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

export interface NodeSelectorRequirement {
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';
  values?: string[];
}

export interface NodeSelectorTerm {
  matchExpressions?: NodeSelectorRequirement[];
  matchFields?: NodeSelectorRequirement[];
}

export interface NodeAffinity {
  requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms: NodeSelectorTerm[] };
  preferredDuringSchedulingIgnoredDuringExecution?: { weight: number; preference: NodeSelectorTerm }[];
}

export interface Taint {
  key: string;
  value?: string;
  effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute';
  timeAdded?: string;
}

export interface ResourceRequirements {
  limits?: Record<string, string>;
  requests?: Record<string, string>;
}

export interface EnvVar {
  name: string;
  value?: string;
  valueFrom?: {
    fieldRef?: { apiVersion?: string; fieldPath: string };
    secretKeyRef?: { name: string; key: string; optional?: boolean };
    configMapKeyRef?: { name: string; key: string; optional?: boolean };
  };
}

export interface ContainerPort {
  name?: string;
  containerPort: number;
  hostPort?: number;
  hostIP?: string;
  protocol?: 'TCP' | 'UDP' | 'SCTP';
}

export interface Probe {
  httpGet?: { path?: string; port: number | string; scheme?: 'HTTP' | 'HTTPS'; host?: string };
  exec?: { command: string[] };
  tcpSocket?: { port: number | string };
  initialDelaySeconds?: number;
  periodSeconds?: number;
  timeoutSeconds?: number;
  successThreshold?: number;
  failureThreshold?: number;
}

export interface VolumeMount {
  name: string;
  mountPath: string;
  readOnly?: boolean;
  subPath?: string;
}

export interface SecurityContext {
  allowPrivilegeEscalation?: boolean;
  capabilities?: { add?: string[]; drop?: string[] };
  privileged?: boolean;
  readOnlyRootFilesystem?: boolean;
  runAsGroup?: number;
  runAsNonRoot?: boolean;
  runAsUser?: number;
  seccompProfile?: { type: 'RuntimeDefault' | 'Unconfined' | 'Localhost'; localhostProfile?: string };
}

export interface PodSecurityContext {
  fsGroup?: number;
  fsGroupChangePolicy?: 'OnRootMismatch' | 'Always';
  runAsGroup?: number;
  runAsNonRoot?: boolean;
  runAsUser?: number;
  seccompProfile?: { type: 'RuntimeDefault' | 'Unconfined' | 'Localhost'; localhostProfile?: string };
  supplementalGroups?: number[];
}

export interface Container {
  name: string;
  image?: string;
  imagePullPolicy?: 'Always' | 'IfNotPresent' | 'Never';
  command?: string[];
  args?: string[];
  workingDir?: string;
  env?: EnvVar[];
  ports?: ContainerPort[];
  resources?: ResourceRequirements;
  volumeMounts?: VolumeMount[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  startupProbe?: Probe;
  securityContext?: SecurityContext;
  terminationMessagePath?: string;
  terminationMessagePolicy?: 'File' | 'FallbackToLogsOnError';
  stdin?: boolean;
  tty?: boolean;
}

export interface DownwardApiItem {
  path: string;
  fieldRef?: { apiVersion?: string; fieldPath: string };
  mode?: number;
}

export interface Volume {
  name: string;
  emptyDir?: { medium?: '' | 'Memory'; sizeLimit?: string };
  image?: { reference: string; pullPolicy?: 'Always' | 'IfNotPresent' | 'Never' };
  secret?: {
    secretName: string;
    defaultMode?: number;
    optional?: boolean;
    items?: { key: string; path: string }[];
  };
  configMap?: { name: string; defaultMode?: number; optional?: boolean };
  downwardAPI?: { items: DownwardApiItem[]; defaultMode?: number };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  hostPath?: { path: string; type?: string };
}

export interface PodSpec {
  activeDeadlineSeconds?: number;
  affinity?: { nodeAffinity?: NodeAffinity; podAntiAffinity?: unknown; podAffinity?: unknown };
  automountServiceAccountToken?: boolean;
  containers: Container[];
  initContainers?: Container[];
  dnsPolicy?: 'ClusterFirst' | 'Default' | 'None' | 'ClusterFirstWithHostNet';
  enableServiceLinks?: boolean;
  hostNetwork?: boolean;
  hostname?: string;
  imagePullSecrets?: LocalObjectReference[];
  nodeName?: string;
  nodeSelector?: Record<string, string>;
  overhead?: Record<string, string>;
  preemptionPolicy?: string;
  priorityClassName?: string;
  restartPolicy?: 'Always' | 'OnFailure' | 'Never';
  runtimeClassName?: string;
  schedulerName?: string;
  schedulingGates?: { name: string }[];
  securityContext?: PodSecurityContext;
  serviceAccountName?: string;
  terminationGracePeriodSeconds?: number;
  tolerations?: Toleration[];
  volumes?: Volume[];
}

/** A condition of Pods and Nodes; older than metav1.Condition, so less is sure. */
export interface CoreCondition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  observedGeneration?: number;
  lastHeartbeatTime?: string | null;
  lastProbeTime?: string | null;
  lastTransitionTime?: string | null;
  reason?: string;
  message?: string;
}

export interface ContainerState {
  waiting?: { reason?: string; message?: string };
  running?: { startedAt?: string };
  terminated?: {
    exitCode: number;
    signal?: number;
    reason?: string;
    message?: string;
    startedAt?: string;
    finishedAt?: string;
  };
}

export interface ContainerStatus {
  name: string;
  state?: ContainerState;
  lastState?: ContainerState;
  ready: boolean;
  started?: boolean;
  restartCount: number;
  image?: string;
  imageID?: string;
}

export interface PodStatus {
  phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  conditions?: CoreCondition[];
  containerStatuses?: ContainerStatus[];
  initContainerStatuses?: ContainerStatus[];
  hostIP?: string;
  podIP?: string;
  podIPs?: { ip: string }[];
  message?: string;
  reason?: string;
  startTime?: string;
}

export interface Pod extends Named {
  spec: PodSpec;
  status?: PodStatus;
}

export interface NodeSpec {
  podCIDR?: string;
  providerID?: string;
  taints?: Taint[];
  unschedulable?: boolean;
}

export interface NodeStatus {
  addresses?: { type: string; address: string }[];
  allocatable?: Record<string, string>;
  capacity?: Record<string, string>;
  conditions?: CoreCondition[];
  images?: { names?: string[]; sizeBytes?: number }[];
  nodeInfo?: {
    architecture: string;
    bootID: string;
    containerRuntimeVersion: string;
    kernelVersion: string;
    kubeletVersion: string;
    machineID: string;
    operatingSystem: string;
    osImage: string;
    systemUUID: string;
  };
}

export interface Node extends Named {
  spec?: NodeSpec;
  status?: NodeStatus;
}

export interface Secret extends Named {
  type?: string;
  /** Base64. */
  data?: Record<string, string>;
  /** Plain text; write-only. */
  stringData?: Record<string, string>;
  immutable?: boolean;
}

export interface ConfigMap extends Named {
  data?: Record<string, string>;
  binaryData?: Record<string, string>;
  immutable?: boolean;
}

export interface Namespace extends Named {
  spec?: { finalizers?: string[] };
  status?: { phase?: 'Active' | 'Terminating'; conditions?: CoreCondition[] };
}

export interface Service extends Named {
  spec?: {
    type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
    clusterIP?: string;
    selector?: Record<string, string>;
    ports?: {
      name?: string;
      port: number;
      targetPort?: number | string;
      nodePort?: number;
      protocol?: string;
    }[];
  };
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] } };
}

export interface ServiceAccount extends Named {
  automountServiceAccountToken?: boolean;
  imagePullSecrets?: LocalObjectReference[];
  secrets?: ObjectReference[];
}

/** authentication.k8s.io/v1, created at `serviceaccounts/{name}/token`. */
export interface TokenRequest extends KubeObject {
  spec: { audiences?: string[]; expirationSeconds?: number; boundObjectRef?: ObjectReference | null };
  status?: { token: string; expirationTimestamp: string };
}

export interface UserInfo {
  username?: string;
  uid?: string;
  groups?: string[];
  extra?: Record<string, string[]>;
}

export interface ResourceAttributes {
  namespace?: string;
  verb?: string;
  group?: string;
  version?: string;
  resource?: string;
  subresource?: string;
  name?: string;
}

export interface AccessReviewStatus {
  allowed: boolean;
  denied?: boolean;
  reason?: string;
  evaluationError?: string;
}

export interface SelfSubjectAccessReview extends KubeObject {
  spec: { resourceAttributes?: ResourceAttributes };
  status?: AccessReviewStatus;
}

export interface SubjectAccessReview extends KubeObject {
  spec: {
    resourceAttributes?: ResourceAttributes;
    user?: string;
    uid?: string;
    groups?: string[];
    extra?: Record<string, string[]>;
  };
  status?: AccessReviewStatus;
}

export interface SelfSubjectReview extends KubeObject {
  status?: { userInfo?: UserInfo };
}

/** events.k8s.io/v1 */
export interface Event extends Named {
  /** MicroTime. */
  eventTime?: string | null;
  series?: { count: number; lastObservedTime: string } | null;
  reportingController?: string;
  reportingInstance?: string;
  action?: string;
  reason?: string;
  regarding?: ObjectReference;
  related?: ObjectReference;
  note?: string;
  type?: 'Normal' | 'Warning';
  deprecatedCount?: number;
  deprecatedFirstTimestamp?: string | null;
  deprecatedLastTimestamp?: string | null;
}

/** coordination.k8s.io/v1; both times are MicroTime. */
export interface Lease extends Named {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface PersistentVolumeClaim extends Named {
  spec?: {
    accessModes?: ('ReadWriteOnce' | 'ReadOnlyMany' | 'ReadWriteMany' | 'ReadWriteOncePod')[];
    resources?: ResourceRequirements;
    storageClassName?: string;
    volumeMode?: 'Filesystem' | 'Block';
    volumeName?: string;
    selector?: LabelSelector;
  };
  status?: {
    phase?: 'Pending' | 'Bound' | 'Lost';
    capacity?: Record<string, string>;
    conditions?: CoreCondition[];
  };
}

export interface StorageClass extends Named {
  provisioner: string;
  volumeBindingMode?: 'Immediate' | 'WaitForFirstConsumer';
  allowVolumeExpansion?: boolean;
}

export interface PolicyRule {
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  nonResourceURLs?: string[];
  verbs: string[];
}

export interface Subject {
  kind: 'User' | 'Group' | 'ServiceAccount';
  apiGroup?: string;
  name: string;
  namespace?: string;
}

export interface Role extends Named {
  rules?: PolicyRule[];
}

export interface RoleBinding extends Named {
  roleRef: { apiGroup: string; kind: 'Role' | 'ClusterRole'; name: string };
  subjects?: Subject[];
}

export interface ClusterRole extends Role {
  aggregationRule?: { clusterRoleSelectors?: LabelSelector[] };
}

export type ClusterRoleBinding = RoleBinding;

export interface Deployment extends Named {
  spec?: { replicas?: number; selector: LabelSelector; template: { metadata?: ObjectMeta; spec: PodSpec } };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    readyReplicas?: number;
    availableReplicas?: number;
    updatedReplicas?: number;
    conditions?: CoreCondition[];
  };
}

export interface DaemonSet extends Named {
  spec?: { selector: LabelSelector; template: { metadata?: ObjectMeta; spec: PodSpec } };
  status?: {
    observedGeneration?: number;
    desiredNumberScheduled?: number;
    numberReady?: number;
    updatedNumberScheduled?: number;
  };
}

/** apiextensions.k8s.io/v1 */
export interface CustomResourceDefinition extends Named {
  spec: Record<string, unknown>;
  status?: { conditions?: Condition[] };
}

/** apiregistration.k8s.io/v1 */
export interface ApiService extends Named {
  spec?: { group?: string; version?: string; service?: { namespace?: string; name?: string; port?: number } };
  status?: { conditions?: CoreCondition[] };
}
