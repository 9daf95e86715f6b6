/** The end of a run: tenants delete all they have, and what is left then is looked for. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { insideSandbox } from '../../src/localcluster/shared/sandbox.ts';
import { run } from '../../src/localcluster/host/command.ts';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { call, type Endpoint, messageIn } from './https.ts';
import { leftovers, type Remains } from './judges/leftovers.ts';
import type { Components } from './machine/components.ts';
import { signal as send } from './machine/signals.ts';
import type { PodProcesses } from './record/guests.ts';
import type { Recorder } from './record/recorder.ts';
import type { StoreFolder } from './record/store.ts';
import { removeCredential } from './workload/credentials.ts';
import type { Operations, Tenant } from './workload/tenant.ts';

export interface CleanUp {
  readonly places: Places;
  readonly tenants: readonly Tenant[];
  readonly adminApi: Endpoint;
  readonly kube: Endpoint;
  readonly operations: Operations;
  readonly recorder: Recorder;
  readonly components: Components;
  readonly pods: PodProcesses;
  readonly store: StoreFolder;
  /** Blobs before the run. */
  readonly before: ReadonlySet<string>;
}

/** Longest that the deletion of everything may take. */
const deletionMs = 5 * 60_000;

/** Deletes everything in the tenants' namespaces as its users; resolves with what is left. */
export async function cleanUp(options: CleanUp, signal: AbortSignal): Promise<string[]> {
  const { tenants } = options;
  for (const tenant of tenants) await deleteVms(options, tenant);
  // Images are in use as long as there are VMs of them.
  await until(
    () => options.recorder.current('vms').every(({ metadata }) => !isTenants(tenants, metadata)),
    signal,
  );
  for (const tenant of tenants) await deleteImages(options, tenant);
  await until(() => options.recorder.current('images').length === 0, signal);
  for (const { namespace } of tenants) await removeCredentials(options, namespace);
  let left = await look(options);
  await until(async () => (left = await look(options)).length === 0, signal);
  return [...left, ...(await leftBlobs(options))];
}

function isTenants(tenants: readonly Tenant[], { namespace }: { namespace?: string }): boolean {
  return tenants.some((tenant) => tenant.namespace === namespace);
}

async function until(isTrue: () => boolean | Promise<boolean>, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + deletionMs;
  while (!(await isTrue()) && Date.now() < deadline && !signal.aborted)
    await delay(1_000, undefined, { signal }).catch(() => undefined);
}

async function deleteVms({ recorder, operations }: CleanUp, { namespace, kube }: Tenant): Promise<void> {
  for (const { metadata } of recorder.current('vms', namespace)) {
    const { name, uid } = metadata;
    const asked = { verb: 'delete', via: 'kubectl', namespace, name, vmUid: uid } as const;
    const path = `/apis/svc3.dev/v1/namespaces/${namespace}/vms/${name}`;
    await operations.http(kube, asked, { method: 'DELETE', path });
  }
}

async function deleteImages({ recorder, operations }: CleanUp, { namespace, kube }: Tenant): Promise<void> {
  for (const { metadata } of recorder.current('images', namespace)) {
    const { name } = metadata;
    const asked = { verb: 'deleteImage', via: 'kubectl', namespace, name } as const;
    const path = `/apis/svc3.dev/v1/namespaces/${namespace}/images/${name}`;
    await operations.http(kube, asked, { method: 'DELETE', path });
  }
}

async function removeCredentials(
  { recorder, operations, adminApi }: CleanUp,
  namespace: string,
): Promise<void> {
  for (const { spec } of recorder.current('registrycredentials', namespace))
    await removeCredential({ operations, api: adminApi }, namespace, spec.server);
}

const listed = {
  vms: '/apis/svc3.dev/v1/vms',
  images: '/apis/svc3.dev/v1/images',
  registrycredentials: '/apis/svc3.dev/v1/registrycredentials',
  pods: '/api/v1/pods',
  persistentvolumeclaims: '/api/v1/persistentvolumeclaims',
  secrets: '/api/v1/secrets',
  configmaps: '/api/v1/configmaps',
  serviceaccounts: '/api/v1/serviceaccounts',
} as const;

async function look(options: CleanUp): Promise<string[]> {
  const { places, pods, store, tenants } = options;
  const [objects, repositories, volumes] = await Promise.all([
    objectsLeft(options),
    store.repositories(),
    readdir(join(places.state, 'volumes')),
  ]);
  const own = [...repositories].filter(([name]) =>
    tenants.some(({ namespace }) => name.startsWith(`svc3/${namespace}/`)),
  );
  const guests = pods.scan().filter(({ command }) => command.startsWith('qemu-system-'));
  const remains: Remains = {
    objects,
    manifests: own.flatMap(([name, digests]) => [...digests].map((digest) => `${name}@${digest}`)),
    blobs: [],
    guests: guests
      .filter(({ podUid }) => !isOfOthers(options, podUid))
      .map(({ pid, podUid }) => `QEMU ${pid} of pod ${podUid}`),
    volumes,
  };
  return leftovers(remains);
}

/** A cluster that ran before may have VMs of its own. */
function isOfOthers({ recorder, tenants }: CleanUp, podUid: string): boolean {
  const pod = recorder.current('pods').find(({ metadata }) => metadata.uid === podUid);
  return pod !== undefined && !isTenants(tenants, pod.metadata);
}

async function objectsLeft({ kube, tenants }: CleanUp): Promise<string[]> {
  const all = await Promise.all(
    Object.entries(listed).map(async ([resource, path]) => {
      const answer = await call(kube, { method: 'GET', path });
      if (answer.status !== 200) return [`${resource} could not be listed: ${messageIn(answer)}`];
      const { items } = answer.body as { items: { metadata: { namespace: string; name: string } }[] };
      return items
        .filter(({ metadata }) => isTenants(tenants, metadata) || isCredentialOf(tenants, metadata))
        .map(({ metadata }) => `${resource} ${metadata.namespace}/${metadata.name}`);
    }),
  );
  return all.flat();
}

function isCredentialOf(
  tenants: readonly Tenant[],
  { namespace, name }: { namespace: string; name: string },
): boolean {
  return (
    namespace === 'svc3-credentials' && tenants.some((tenant) => name.startsWith(`${tenant.namespace}.`))
  );
}

/** Blobs go when the registry collects its garbage: what is then there more than before belongs to nobody. */
async function leftBlobs(options: CleanUp): Promise<string[]> {
  const { components, places, store, before } = options;
  const registry = components.running().find(({ name }) => name === 'registry');
  if (registry !== undefined) send(registry.pid, 'SIGKILL');
  const [first, ...rest] = insideSandbox(components.sandboxPid, [components.programOf('registry')]);
  try {
    await run(first, [...rest, 'garbage-collect', join(places.state, 'registry/config.yml')]);
  } finally {
    components.start('registry');
  }
  const left = [...(await store.blobs())].filter((digest) => !before.has(digest));
  return leftovers({ objects: [], manifests: [], blobs: left, guests: [], volumes: [] });
}
