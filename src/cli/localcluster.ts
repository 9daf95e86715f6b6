/** What `svc3 dev` needs of the local cluster; `src/bin/svc3.ts` joins it to `src/localcluster`. */

/** The cluster that is asked for. */
export interface UpOptions {
  readonly name: string;
  /** Absent: as many as the last time, at first one. */
  readonly nodes?: number;
  /** Only etcd and the control plane, on loopback, without root. */
  readonly controlPlane: boolean;
  /** Only Kubernetes and the registry, without svc3. */
  readonly bare: boolean;
  /** What is started where it is asked for. */
  readonly addons: { readonly dns: boolean; readonly metrics: boolean; readonly networkPolicies: boolean };
  /** Start a VM to look at. */
  readonly demo: boolean;
  readonly gpuPassthrough: boolean;
  /** One more node, emulated, with GPUs. */
  readonly gpuNode: boolean;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

/** What `svc3 dev status` shows. */
export interface ClusterStatus {
  readonly name: string;
  readonly state: string;
  readonly kubeconfig?: string;
  /** Folders of kubectl, helm and the others. */
  readonly bin?: readonly string[];
  readonly baseUrl?: string;
  readonly nodes?: readonly string[];
  /** Whether the host reaches the nodes at their addresses, in words. */
  readonly hostAccess?: string;
  readonly components?: readonly {
    readonly name: string;
    readonly state: string;
    readonly message?: string;
  }[];
  readonly message?: string;
}

/** Local clusters by name. */
export interface LocalCluster {
  /** Resolves when the cluster serves; `changed` is false when it did before. */
  up(options: UpOptions): Promise<{ readonly status: ClusterStatus; readonly changed: boolean }>;
  down(options: {
    readonly name: string;
    readonly purge: boolean;
    progress(text: string): void;
  }): Promise<{ readonly changed: boolean }>;
  status(options: { readonly name: string }): Promise<ClusterStatus>;
}
