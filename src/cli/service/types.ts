import type { Duplex, Readable } from 'node:stream';
import type { Architecture } from '../../api/vmconfig.ts';
import type { AddedCredential, Verdict, VerifyOptions } from '../../usecases/credential.ts';
import type { DeployWait } from '../../usecases/deploy.ts';
import type { LogRequest } from '../../usecases/logs.ts';
import type { PowerCommand } from '../../wire/powercommands.ts';
import type {
  AccountRole,
  ClusterInfo,
  OidcClient,
  ImageItem,
  IssuedToken,
  NodeItem,
  RegistryCredentialItem,
  RegistryCredentialRequest,
  RemoteItem,
  ServiceAccountItem,
} from '../../wire/schemas.ts';
import type {
  DeployItem,
  DeployRequest,
  Explanation,
  VmConfigItem,
  VmConfigRequest,
  VmPoolItem,
  VmPoolRequest,
  VmPoolScaleRequest,
  VmChangeRequest,
  VmItem,
} from '../../wire/vmschemas.ts';

/** Request and item shapes are those of `/api/v1`, whichever way is taken. */
export type {
  DeployItem,
  DeployRequest,
  Explanation,
  IssuedToken,
  NodeItem,
  RegistryCredentialItem,
  RegistryCredentialRequest,
  RemoteItem,
  ServiceAccountItem,
  Verdict,
  VmConfigItem,
  VmConfigRequest,
  VmPoolItem,
  VmPoolRequest,
  VmPoolScaleRequest,
  VmChangeRequest,
  VmItem,
};

/** An Image or an ISO. */
export type DiskItem = ImageItem;

/** Whether and how long a command waits for what it began. */
export interface WaitOptions {
  /** False: return as soon as it is asked for. */
  readonly wait: boolean;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** What to wait for after a deploy. */
export interface DeployOptions extends Omit<WaitOptions, 'wait'> {
  readonly wait: DeployWait;
  /** Called once the VM is created: whoever stops waiting is told its name, which may have been generated. */
  noteCreated(name: string): void;
  /** The trace that the deploy is to belong to (W3C `traceparent`). */
  readonly traceparent?: string | undefined;
}

/** What is used; absent while metrics-server has no figures. */
export interface UsedFigures {
  readonly usedCpuMilli?: number;
  readonly usedMemoryBytes?: number;
}

/** What a VM's pod uses, and what the VM has once it has been placed. */
/** API group of metrics-server. */
export const metricsGroup = 'metrics.k8s.io';

export interface VmTopItem extends UsedFigures {
  readonly name: string;
  readonly namespace: string;
  readonly node?: string;
  /** Virtual CPUs. */
  readonly cpu?: number;
  /** Memory of the guest, a quantity. */
  readonly memory?: string;
}

/** What is used of a node, and what pods may have of it. */
export interface NodeTopItem extends UsedFigures {
  readonly name: string;
  readonly allocatableCpuMilli?: number;
  readonly allocatableMemoryBytes?: number;
}

export interface DeletionOptions extends WaitOptions {
  /** A Persistent disk goes with the VM, whatever the VM says. */
  readonly deleteDisk: boolean;
}

/** A VM whose settings were changed. */
export interface ChangedVm {
  readonly vm: VmItem;
  /** False: the operator has not looked at the change yet. */
  readonly isSeen: boolean;
}

/** VMs of a namespace. */
export interface Vms {
  list(namespace: string): Promise<VmItem[]>;
  /** Of all namespaces. @throws Forbidden where the caller may not list them in all; NotFound where the server has no such list */
  listAll(): Promise<VmItem[]>;
  /** The list as it is, and again after each change, until the signal. */
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly VmItem[]>;
  get(namespace: string, name: string): Promise<VmItem>;
  deploy(namespace: string, request: DeployRequest, options: DeployOptions): Promise<DeployItem>;
  /** Waits a while until it is gone, so that the name is free again; else returns how its deletion goes on. */
  delete(namespace: string, name: string, options: DeletionOptions): Promise<string | undefined>;
  /**
   * True when the VM is in the requested state; false when it goes on getting there, as also where the time to wait is over.
   *
   * @throws Svc3Error Timeout where the server has ended the wait before, and none tells what has become of it
   */
  exec(namespace: string, name: string, command: PowerCommand, options: WaitOptions): Promise<boolean>;
  save(
    namespace: string,
    name: string,
    request: { readonly imageName: string; readonly description?: string; readonly memory?: boolean },
  ): Promise<DiskItem>;
  commit(namespace: string, name: string, request: { readonly description?: string }): Promise<DiskItem>;
  /**
   * Grows the disk to `gib` GiB. With `wait`, what became of it: whether the guest's file system grew too, else what to do
   * in the guest, or that it grows when the VM goes on, which is suspended on its disk; undefined where the VM has not booted yet.
   *
   * @throws Svc3Error Timeout where it takes long: it goes on
   */
  resize(namespace: string, name: string, gib: number, options: WaitOptions): Promise<string | undefined>;
  /**
   * Changes settings. With `wait` the VM is shown once the operator has looked at the change, which tells what of it waits.
   *
   * @throws Svc3Error Timeout where the server has ended the wait before, and none tells what has become of it
   */
  set(namespace: string, name: string, request: VmChangeRequest, options: WaitOptions): Promise<ChangedVm>;
  /** Returns what becomes of its CD. */
  eject(namespace: string, name: string): Promise<string>;
  explain(namespace: string, name: string): Promise<Explanation>;
  /** The log of the pod that runs the VM now. @throws Conflict where it has none */
  logs(namespace: string, name: string, request: LogRequest): AsyncIterable<Uint8Array>;
  /** What the pods of the VMs use. @throws NotFound where the cluster has no metrics-server */
  top(namespace: string): Promise<VmTopItem[]>;
  /** Of all namespaces. @throws Forbidden where the caller may not list VMs or their figures in all; NotFound without metrics-server */
  topAll(): Promise<VmTopItem[]>;
  /** A byte stream to a TCP port of the guest. */
  /** The guest's serial console, both ways. */
  serial(namespace: string, name: string): Promise<Duplex>;
  tunnel(namespace: string, name: string, port: number): Promise<Duplex>;
  /** A byte stream of RFB, for a VNC viewer. */
  screen(namespace: string, name: string): Promise<Duplex>;
  /** Page of the browser console. */
  consoleUrl(namespace: string, name: string): Promise<string>;
}

/** VM configurations of a namespace. */
export interface VmConfigs {
  list(namespace: string): Promise<VmConfigItem[]>;
  /** Of all namespaces. @throws Forbidden where the caller may not list them in all; NotFound where the server has no such list */
  listAll(): Promise<VmConfigItem[]>;
  /** The list as it is, and again after each change, until the signal. */
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly VmConfigItem[]>;
  get(namespace: string, name: string): Promise<VmConfigItem>;
  create(namespace: string, request: VmConfigRequest): Promise<VmConfigItem>;
  delete(namespace: string, name: string): Promise<void>;
}

/** VM pools of a namespace. */
export interface VmPools {
  list(namespace: string): Promise<VmPoolItem[]>;
  /** Of all namespaces. @throws Forbidden where the caller may not list them in all; NotFound where the server has no such list */
  listAll(): Promise<VmPoolItem[]>;
  /** The list as it is, and again after each change, until the signal. */
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly VmPoolItem[]>;
  get(namespace: string, name: string): Promise<VmPoolItem>;
  create(namespace: string, request: VmPoolRequest): Promise<VmPoolItem>;
  scale(namespace: string, name: string, request: VmPoolScaleRequest): Promise<VmPoolItem>;
  delete(namespace: string, name: string): Promise<void>;
}

/** Nodes that take VMs. */
export interface Nodes {
  list(namespace: string): Promise<NodeItem[]>;
  /** The list as it is, and again after each change, until the signal. */
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly NodeItem[]>;
  /** What is used of every node. @throws NotFound where the cluster has no metrics-server */
  top(): Promise<NodeTopItem[]>;
  tag(namespace: string, name: string, tag: string): Promise<void>;
  untag(namespace: string, name: string, tag: string): Promise<void>;
  /** Reserves the node for a namespace; undefined gives it back to all. */
  assign(name: string, namespace: string | undefined): Promise<void>;
  /** The administrator's consent to GPU passthrough (spec: GPU passthrough rule 3). */
  setGpuPassthrough(name: string, allowed: boolean): Promise<void>;
}

/** A file on its way into the store. */
export interface UploadRequest {
  readonly name: string;
  readonly description?: string;
  readonly architecture?: Architecture;
  /** Bytes; absent for a pipe. */
  readonly size?: number;
  readonly body: Readable;
  /** The file from a byte on, to go on after a cut; absent for what can be read only once. */
  readonly reopen?: (start: number) => Promise<Readable>;
  readonly filename: string;
  /** With it what has been sent is given up in the store, unless all of it had come. */
  readonly signal: AbortSignal;
}

/** A disk on its way. */
export interface DiskBytes {
  /** Fails at its end where `digest` is known and the bytes have another. */
  readonly body: Readable;
  readonly size?: number;
  /** SHA-256 in hex, as the server said it; what stands in `body` has been compared with it when it ends. */
  readonly digest?: string;
}

/** Images or ISOs of the store. */
export interface Disks {
  list(namespace: string): Promise<DiskItem[]>;
  /** Of all namespaces. @throws Forbidden where the caller may not list them in all; NotFound where the server has no such list */
  listAll(): Promise<DiskItem[]>;
  /** The list as it is, and again after each change, until the signal. */
  watch(namespace: string, signal: AbortSignal): AsyncIterable<readonly DiskItem[]>;
  get(namespace: string, name: string): Promise<DiskItem>;
  generate(
    namespace: string,
    request: {
      readonly name: string;
      readonly size: string;
      readonly description?: string;
      readonly architecture?: Architecture;
    },
  ): Promise<DiskItem>;
  copy(
    namespace: string,
    from: string,
    request: { readonly name: string; readonly description?: string },
  ): Promise<DiskItem>;
  describe(namespace: string, name: string, description: string): Promise<void>;
  /** Returns how its deletion goes on; undefined: it is gone. */
  delete(namespace: string, name: string, signal: AbortSignal): Promise<string | undefined>;
  upload(namespace: string, request: UploadRequest): Promise<DiskItem>;
  download(namespace: string, name: string): Promise<DiskBytes>;
  remote(namespace: string): Promise<RemoteItem[]>;
  pull(
    namespace: string,
    reference: string,
    request: { readonly name?: string; readonly description?: string },
  ): Promise<DiskItem>;
}

/** Service accounts of a namespace, and their tokens. */
export interface ServiceAccounts {
  list(namespace: string): Promise<ServiceAccountItem[]>;
  /** Without a role: `svc3-edit` where the caller may bind it, else none and a warning. */
  create(namespace: string, name: string, role: AccountRole | undefined): Promise<void>;
  delete(namespace: string, name: string): Promise<void>;
  token(namespace: string, name: string, request: { readonly duration?: string }): Promise<IssuedToken>;
}

/** Credentials of private registries in a namespace; for cluster administrators. */
export interface RegistryCredentials {
  list(namespace: string): Promise<RegistryCredentialItem[]>;
  /** True when stored credentials were replaced. `contacting` is told who is about to get the login, and from where. */
  add(
    namespace: string,
    request: RegistryCredentialRequest,
    options: Omit<VerifyOptions, 'signal'>,
  ): Promise<AddedCredential>;
  remove(namespace: string, server: string): Promise<void>;
}

/** Everything the commands need of svc3, by one of two ways with the same output. */
export interface Service {
  readonly vms: Vms;
  readonly vmConfigs: VmConfigs;
  readonly vmPools: VmPools;
  readonly nodes: Nodes;
  readonly images: Disks;
  readonly isos: Disks;
  readonly serviceAccounts: ServiceAccounts;
  readonly registryCredentials: RegistryCredentials;
  namespaces(): Promise<string[]>;
  /** Address of the web page, with a code that signs a browser in once and within a minute. */
  pageUrl(): Promise<string>;
  /** Version of the installation and what it says about itself; undefined where it cannot be asked. */
  clusterInfo(): Promise<ClusterInfo | undefined>;
  /** With what `svc3 login --oidc` logs in; undefined where the installation names no issuer or cannot be asked. */
  oidcClient(): Promise<OidcClient | undefined>;
  close(): Promise<void>;
}
