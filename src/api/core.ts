/**
 * Kubernetes' own objects, by the types that `@kubernetes/client-node` generates from Kubernetes' OpenAPI document. Types
 * only: nothing of that package is loaded at run time (ADR 3).
 */
import type {
  AuthenticationV1TokenRequest,
  EventsV1Event,
  RbacV1Subject,
  V1APIService,
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1ConfigMap,
  V1Container,
  V1ContainerPort,
  V1ContainerStatus,
  V1CustomResourceDefinition,
  V1Deployment,
  V1Lease,
  V1Namespace,
  V1Node,
  V1NodeCondition,
  V1NodeSelectorRequirement,
  V1NodeSelectorTerm,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodSpec,
  V1PodStatus,
  V1PolicyRule,
  V1ResourceRequirements,
  V1Role,
  V1RoleBinding,
  V1Secret,
  V1SecurityContext,
  V1SelfSubjectAccessReview,
  V1SubjectAccessReview,
  V1SelfSubjectReview,
  V1Service,
  V1ServiceAccount,
  V1StorageClass,
  V1Taint,
  V1UserInfo,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import type { Json, Namespaced, Stored } from './object.ts';

export type NodeSelectorRequirement = Json<V1NodeSelectorRequirement>;
export type NodeSelectorTerm = Json<V1NodeSelectorTerm>;
export type Taint = Json<V1Taint>;
export type ResourceRequirements = Json<V1ResourceRequirements>;
export type ContainerPort = Json<V1ContainerPort>;
export type VolumeMount = Json<V1VolumeMount>;
export type SecurityContext = Json<V1SecurityContext>;
export type Container = Json<V1Container>;
export type Volume = Json<V1Volume>;
export type PodSpec = Json<V1PodSpec>;
/** A condition of a Node: that of a Pod has no heartbeat, and `type` and `status` are the same. */
export type NodeCondition = Json<V1NodeCondition>;
export type ContainerStatus = Json<V1ContainerStatus>;
export type PodStatus = Json<V1PodStatus>;
export type UserInfo = Json<V1UserInfo>;
export type PolicyRule = Json<V1PolicyRule>;
export type Subject = Json<RbacV1Subject>;

export type Pod = Namespaced<V1Pod, 'spec'>;
export type Node = Stored<V1Node>;
export type Secret = Namespaced<V1Secret>;
export type ConfigMap = Namespaced<V1ConfigMap>;
export type Namespace = Stored<V1Namespace>;
export type Service = Namespaced<V1Service>;
export type ServiceAccount = Namespaced<V1ServiceAccount>;
export type Event = Namespaced<EventsV1Event>;
export type Lease = Namespaced<V1Lease>;
export type PersistentVolumeClaim = Namespaced<V1PersistentVolumeClaim>;
export type StorageClass = Stored<V1StorageClass>;
export type Role = Namespaced<V1Role>;
export type RoleBinding = Namespaced<V1RoleBinding>;
export type ClusterRole = Stored<V1ClusterRole>;
export type ClusterRoleBinding = Stored<V1ClusterRoleBinding>;
export type Deployment = Namespaced<V1Deployment>;
export type CustomResourceDefinition = Stored<V1CustomResourceDefinition>;
export type ApiService = Stored<V1APIService>;

export type TokenRequest = Json<AuthenticationV1TokenRequest>;
export type SelfSubjectAccessReview = Json<V1SelfSubjectAccessReview>;
export type SubjectAccessReview = Json<V1SubjectAccessReview>;
export type SelfSubjectReview = Json<V1SelfSubjectReview>;
