/** What happened in a run, as those saw it who do not ask svc3: watches, the processes of the machine, the registry's folder. */
import type { Event, Namespace, Node, PersistentVolumeClaim, Pod, Secret } from '../../../src/api/core.ts';
import type { Image } from '../../../src/api/image.ts';
import type { RegistryCredential } from '../../../src/api/registrycredential.ts';
import type { Vm } from '../../../src/api/vm.ts';

/** The objects that are watched, by the plural of their resource. */
export interface Watched {
  pods: Pod;
  vms: Vm;
  images: Image;
  registrycredentials: RegistryCredential;
  persistentvolumeclaims: PersistentVolumeClaim;
  secrets: Secret;
  events: Event;
  nodes: Node;
  namespaces: Namespace;
}
export type ResourceName = keyof Watched;

/** One event of a watch. All times are milliseconds since 1970, as this machine saw them. */
export interface Sight<R extends ResourceName = ResourceName> {
  readonly at: number;
  readonly resource: R;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: Watched[R];
  /** Found by listing anew: it happened at some time before. */
  readonly isLate: boolean;
}

/** A watch could not be resumed: what lay between is not known. */
export interface Gap {
  readonly resource: ResourceName;
  readonly from: number;
  readonly until: number;
  readonly why: string;
}

export type Verb =
  | 'deploy'
  | 'delete'
  | 'start'
  | 'stop'
  | 'suspend'
  | 'resume'
  | 'revert'
  | 'save'
  | 'commit'
  | 'copy'
  | 'blank'
  | 'deleteImage'
  | 'mark'
  | 'addCredential'
  | 'replaceCredential'
  | 'removeCredential';

export interface Operation {
  readonly id: number;
  readonly verb: Verb;
  readonly namespace: string;
  /** Name of the VM, Image, or server of a credential. */
  readonly name: string;
  /** UID of the VM that was meant, as the one who asked knew it. */
  readonly vmUid?: string;
  /** The image that a save, commit or copy makes. */
  readonly image?: string;
  /** What the guest had written and synced before a save was asked for. */
  readonly marker?: string;
  readonly via: 'http' | 'kubectl' | 'cli' | 'ssh';
  readonly at: number;
  answeredAt?: number;
  /** `unknown`: no answer came. */
  outcome?: 'accepted' | 'refused' | 'unknown';
  answer?: string;
}

/** What a fault is done to. */
export interface FaultTarget {
  readonly what: string;
  readonly node?: string | undefined;
  readonly podUid?: string;
  readonly pids?: readonly number[];
}

export interface Fault {
  readonly id: number;
  /** e.g. `kill runner`, `pause etcd`, `reboot node`. */
  readonly kind: string;
  readonly target: FaultTarget;
  readonly at: number;
  /** When it was undone; a kill is done at once. */
  until?: number;
  problem?: string;
}

/** One QEMU process, from the first scan that saw it to the last. */
export interface GuestLife {
  readonly pid: number;
  /** In clock ticks since boot: tells it from a later one with the same number. */
  readonly startTime: string;
  readonly vmUid: string;
  readonly podUid: string;
  readonly node: string;
  /** Device and inode of each disk that is open for writing. */
  disks: readonly string[];
  readonly since: number;
  lastSeen: number;
  /** The first scan that did not see it. */
  until?: number;
}

/** What the registry's folder held. */
export interface StoreSight {
  /** Before it was read, which takes seconds on a loaded machine. */
  readonly at: number;
  /** After that. */
  readonly until: number;
  /** Digests of the manifests, by repository. */
  readonly repositories: ReadonlyMap<string, ReadonlySet<string>>;
}

/** A saved disk was read from the registry's folder. */
export interface ContentCheck {
  readonly at: number;
  readonly namespace: string;
  readonly image: string;
  readonly digest: string;
  /** Text that the guest wrote and synced before the save was asked for; undefined where none had to be in it. */
  readonly marker: string | undefined;
  /** Undefined where all is well. */
  readonly problem: string | undefined;
}

/** A text that only one namespace may know turned up elsewhere. */
export interface Leak {
  readonly at: number;
  readonly of: string;
  readonly where: string;
}

/** A VM's disk was read through its guest. */
export interface DiskCheck {
  readonly at: number;
  readonly namespace: string;
  readonly vm: string;
  readonly vmUid: string;
  readonly missing: readonly string[];
}

export interface History {
  readonly sights: Sight[];
  readonly gaps: Gap[];
  readonly operations: Operation[];
  readonly faults: Fault[];
  readonly guests: GuestLife[];
  readonly store: StoreSight[];
  readonly contents: ContentCheck[];
  readonly disks: DiskCheck[];
  readonly leaks: Leak[];
}

export function emptyHistory(): History {
  return {
    sights: [],
    gaps: [],
    operations: [],
    faults: [],
    guests: [],
    store: [],
    contents: [],
    disks: [],
    leaks: [],
  };
}

/** Of one resource, in the order they came. */
export function sightsOf<R extends ResourceName>({ sights }: History, resource: R): Sight<R>[] {
  return sights.filter((sight) => sight.resource === resource) as unknown as Sight<R>[];
}

/** The object as it was at a time; undefined before it was there and after it was gone. */
export function objectAt<R extends ResourceName>(
  sights: readonly Sight<R>[],
  uid: string,
  at: number,
): Watched[R] | undefined {
  const last = sights.findLast((sight) => sight.object.metadata.uid === uid && sight.at <= at);
  return last === undefined || last.type === 'DELETED' ? undefined : last.object;
}
