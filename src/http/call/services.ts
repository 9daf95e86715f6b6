import type { Duplex, Readable } from 'node:stream';
import type { Image, Iso } from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';
import type { Architecture } from '../../api/vmconfig.ts';
import type { VmUsage } from '../../api/vmusage.ts';
import type { PortRange } from '../../api/meta.ts';
import type { LoginRequest, LoginResult } from '../../controllers/credential/login.ts';
import type { KubeClient } from '../../kube/types.ts';
import type { Tracer } from '../../tracing/span.ts';
import type { Caches } from './caches.ts';
import type { Caller } from './caller.ts';
import type { OidcClient } from '../../wire/schemas.ts';
import type { UploadFacts, UploadTarget } from '../../usecases/uploadtarget.ts';

/** Logs in to a registry once; `Unreachable` is no refusal. */
export type RegistryLogin = (login: LoginRequest) => Promise<LoginResult>;

/** Streams disks between a client and the store; nothing lands on a disk of the api. */
export interface ImageTransfer {
  upload(target: {
    kind: 'Image' | 'ISO';
    namespace: string;
    name: string;
    fileName: string;
    description?: string | undefined;
    architecture?: Architecture | undefined;
    /** Bytes that `content` will give, exactly. */
    size: number;
    content: Readable;
    caller: Caller;
    signal: AbortSignal;
  }): Promise<Image | Iso>;
  download(source: {
    disk: Image | Iso;
    /** First and last byte that are wanted, of a file of `size` bytes; default: all. */
    range?: (size: number) => { readonly start: number; readonly end: number } | undefined;
    signal: AbortSignal;
  }): Promise<DiskDownload>;
}

export interface DiskDownload {
  readonly stream: Readable;
  /** Bytes of the whole file. */
  readonly size: number;
  readonly fileName: string;
  /** SHA-256 of the whole file (`sha256:…`), where the image says it. */
  readonly digest?: string;
  /** The part that the stream gives, where `range` asked for one. */
  readonly part?: { readonly start: number; readonly end: number };
}

/** How far an upload is. */
export interface UploadState {
  readonly id: string;
  /** Bytes that have come. */
  readonly offset: number;
  /** Bytes of the whole file, where the client said. */
  readonly size?: number;
  readonly isComplete: boolean;
}

/** Uploads that go on where they broke off, whichever replica of the api is asked. */
export interface ResumableUploads {
  /** @throws AlreadyExists when the name is taken, Invalid when the file is larger than any that is taken. */
  begin(
    target: UploadTarget,
    file: UploadFacts & {
      /** Bytes of the whole file, where the client said. */
      readonly size: number | undefined;
      /** Bytes of its beginning that come with the request, where the client said. */
      readonly length?: number | undefined;
    },
  ): Promise<UploadState>;
  /** @throws NotFound. */
  state(target: UploadTarget, id: string): Promise<UploadState>;
  /**
   * What comes is kept, also when it breaks off; after the last byte the object is made (`taken`).
   *
   * @throws Invalid when the file is larger than any that is taken, TooManyRequests when as many uploads as may are under way for longer than it waits.
   */
  append(
    target: UploadTarget,
    id: string,
    bytes: {
      /** @throws Conflict when the upload is elsewhere. */
      readonly offset: number;
      readonly content: AsyncIterable<Buffer>;
      readonly length: number | undefined;
      readonly isLast: boolean;
      /** Whether so many bytes are all that were to come. */
      isWhole(received: number): boolean;
      /** Of the caller: identities take turns. */
      readonly identity: string;
      /** Aborted when the client hangs up. */
      readonly signal: AbortSignal;
    },
  ): Promise<UploadState & { readonly taken?: Image | Iso }>;
  cancel(target: UploadTarget, id: string): Promise<void>;
}

export interface RemoteImage {
  readonly name: string;
  /** Absent where nothing tells but a pull. */
  readonly kind?: 'image' | 'iso';
  readonly tags?: readonly string[];
}

/** Lists what the configured remote registries hold, with the namespace's credentials. */
export interface RemoteCatalog {
  list(
    namespace: string,
    signal: AbortSignal,
  ): Promise<{
    readonly items: readonly RemoteImage[];
    /** What is missing and why, as sentences. */
    readonly incomplete: readonly string[];
  }>;
}

/** Opens streams to the runner of a VM: they end where the guest's side does, and fail where they were cut, with an error that says where. */
export interface RunnerConnections {
  /**
   * `once`, where given, names a use that the runner allows one time.
   * @throws Svc3Error Gone when it has been used
   */
  openVnc(vm: Vm, once?: string): Promise<Duplex>;
  openSerial(vm: Vm): Promise<Duplex>;
  openTunnel(vm: Vm, port: number): Promise<Duplex>;
}

/** What VMs use now. */
export interface VmUsages {
  /**
   * At most a second old; for callers whose right to the VM was asked for.
   * @throws Svc3Error Conflict: no guest runs; NotImplemented: its runner is of a version without figures; else it does not answer
   */
  of(vm: Vm): Promise<VmUsage>;
}

/** The api's serving certificate. */
export interface CertificateStore {
  replace(pair: { cert: string; key: string }): Promise<void>;
}

/** Signs and reads the short-lived tickets with which a browser opens a stream. */
export interface TicketSigner {
  sign(claims: Readonly<Record<string, unknown>>): string;
  /** The claims, or undefined when signature or time do not hold. */
  verify(ticket: string): Readonly<Record<string, unknown>> | undefined;
}

/** Seals what only the api may read again, on whichever replica. */
export interface Sealer {
  /** Stands for the key, and tells nothing of it. */
  readonly keyId: string;
  seal(purpose: string, claims: Readonly<Record<string, unknown>>): string;
  /** The claims, or undefined for what was not sealed with this key for this purpose. */
  open(purpose: string, text: string): Readonly<Record<string, unknown>> | undefined;
}

export interface HttpSettings {
  readonly version: string;
  readonly gpuPassthroughEnabled: boolean;
  /** Where kube-apiserver is reached from outside. */
  readonly clusterEndpoint: string;
  /** The CA of kube-apiserver in PEM, read anew: it is rotated while the api runs. Empty where the api trusts the system's. */
  readonly clusterCaPem: () => Promise<string>;
  /** Name under which the API is reached; empty: what the client used. */
  readonly apiDomain: string;
  /** What people log in with, where the installation says it. */
  readonly oidc?: OidcClient;
  readonly hostPortsAllowed: PortRange;
  /** Chart value `defaultNamespace`. */
  readonly defaultNamespace: string;
}

export interface AccessLog {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** Everything the handlers stand on; joined in `src/bin/api.ts`. */
export interface Services {
  /** The api's own ServiceAccount. */
  readonly client: KubeClient;
  readonly caches: Caches;
  readonly settings: HttpSettings;
  readonly log: AccessLog;
  readonly registryLogin: RegistryLogin;
  readonly transfer: ImageTransfer;
  readonly uploads: ResumableUploads;
  readonly remotes: RemoteCatalog;
  readonly runners: RunnerConnections;
  readonly usages: VmUsages;
  readonly certificates: CertificateStore;
  readonly tickets: TicketSigner;
  readonly seals: Sealer;
  /** Where traces go to; undefined: there are none. */
  readonly tracer?: Tracer | undefined;
}
