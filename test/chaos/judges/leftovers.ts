/** Invariant: when all that tenants made is deleted, nothing of it is left. */

export interface Remains {
  /** `<resource> <namespace>/<name>` of every object in the tenants' namespaces, and of theirs elsewhere. */
  readonly objects: readonly string[];
  /** `<repository>@<digest>` of every manifest below the tenants' path. */
  readonly manifests: readonly string[];
  /** Blobs that the registry still has after collecting its garbage, and did not have before the run. */
  readonly blobs: readonly string[];
  /** QEMU processes. */
  readonly guests: readonly string[];
  /** Folders of persistent volumes. */
  readonly volumes: readonly string[];
}

/** What every namespace has by itself. */
const ofKubernetes = [/^configmaps [^/]+\/kube-root-ca\.crt$/, /^serviceaccounts [^/]+\/default$/];

export function leftovers({ objects, manifests, blobs, guests, volumes }: Remains): string[] {
  return [
    ...objects.filter((object) => !ofKubernetes.some((known) => known.test(object))),
    ...manifests.map((manifest) => `manifest ${manifest}`),
    ...blobs.map((blob) => `blob ${blob}`),
    ...guests.map((guest) => `process ${guest}`),
    ...volumes.map((volume) => `volume ${volume}`),
  ];
}
