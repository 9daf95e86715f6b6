/** What every object of the Kubernetes API has. Types only: importing this costs nothing at run time. */
import type { V1ObjectMeta, V1OwnerReference } from '@kubernetes/client-node';

/**
 * As JSON carries a generated type: the generated classes say Date, which is what their own client makes of it; on the wire
 * it is RFC 3339 text.
 */
export type Json<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Json<Item>[]
    : T extends object
      ? { [Field in keyof T]: Json<T[Field]> }
      : T;

export type OwnerReference = Json<V1OwnerReference>;
export type ObjectMeta = Json<V1ObjectMeta>;

/** Metadata as kube-apiserver gives it of everything that it stores. */
export type StoredMeta = ObjectMeta & Required<Pick<ObjectMeta, 'name' | 'uid' | 'resourceVersion'>>;

/** The same of an object that is in a namespace. */
export type NamespacedMeta = StoredMeta & { namespace: string };

/**
 * An object as kube-apiserver stores and gives it: the fields named are there, though the generated type says that they may
 * be missing, as it serves requests too.
 */
export type Stored<T, Present extends keyof T = never> = Json<Omit<T, 'metadata' | Present>> & {
  metadata: StoredMeta;
} & { [Field in Present]-?: Json<NonNullable<T[Field]>> };

/** The same of a kind whose objects are in namespaces. */
export type Namespaced<T, Present extends keyof T = never> = Stored<T, Present> & {
  metadata: NamespacedMeta;
};

type Sent<T extends KubeObject, Meta> = Omit<T, keyof KubeObject> &
  KubeObject & { [Field in keyof Pick<T, 'metadata'>]: Meta };

/** An object as it is sent to be created or applied: kube-apiserver gives it its uid and its resourceVersion. */
export type Submitted<T extends KubeObject> = Sent<T, ObjectMeta & { name: string }>;

/** One that is sent to be created, whose name kube-apiserver may make. */
export type Created<T extends KubeObject> = Sent<T, ObjectMeta>;

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata?: ObjectMeta;
}

/** metav1.Condition. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  observedGeneration?: number;
  lastTransitionTime: string;
  reason: string;
  message: string;
}

/** A typed handle of one resource of the API: what is needed to make its paths. */
export interface Resource<T extends KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Phantom: binds the handle to its type. */
  readonly __type?: T;
}
