import { pods, secrets, typeMeta } from '../../api/resources.ts';
import { apiVersion, labels } from '../../api/meta.ts';
import { isOwnedBy, isTerminating } from '../../api/owner.ts';
import type { Pod, Secret } from '../../api/core.ts';
import type { RunnerExport } from '../../api/runner.ts';
import type { WorkSource, WorkSpec } from '../../api/worker.ts';
import { ignoring } from '../../controller/ignoring.ts';
import { isPassing, isSvc3Error, messageOf } from '../../errors.ts';
import type { KubeClient } from '../../kube/types.ts';
import type { Disk } from './caches.ts';
import type { Work } from './decide.ts';
import { atCluster, atRunner, StepFailed } from './failure.ts';
import { architectureOf, ticketSecret, wantsMemory, workerPodName } from './names.ts';
import type { DiskKind, RepositoryPath } from './repositorypath.ts';
import type { NamespaceRegistries } from './registries.ts';
import { storageLimitOf } from './storagelimit.ts';
import { remoteRegistry } from './remotereference.ts';
import type { OpenRunnerExports, RunnerExports } from './runner.ts';
import type { ImageSettings } from './settings.ts';
import { buildWorkerPod } from './workerpod.ts';
import type { Submitted } from '../../api/object.ts';

export interface PodWorkParts {
  readonly client: KubeClient;
  readonly settings: ImageSettings;
  readonly registries: NamespaceRegistries;
  readonly openRunner: OpenRunnerExports | undefined;
}

export interface PodWork {
  readonly disk: Disk;
  readonly kind: DiskKind;
  readonly path: RepositoryPath;
  readonly id: string;
}

export type Started =
  | { readonly kind: 'started'; readonly pod: string }
  /** The runner is still copying. */
  | { readonly kind: 'copying'; readonly progress: number };

type ExportWork = Extract<Work, { kind: 'export' }>;

/** Share of the work that is done when the runner has made its copy, in percent. */
export const exportShare = 40;

/** Makes the worker pod of an export, once the runner's copy is there. */
export async function startExport(parts: PodWorkParts, target: PodWork, work: ExportWork): Promise<Started> {
  const { client, openRunner, settings } = parts;
  const { vm, source } = work;
  const { uid, runner } = source;
  if (openRunner === undefined)
    throw new StepFailed({ reason: 'RunnerUnreachable', message: 'runners cannot be reached' }, undefined);
  const exports = openRunner({ address: runner.address, vmUid: uid, pin: runner.fingerprint });
  const hasMemory = wantsMemory(target.disk);
  const known = await atRunner(vm, () => ignoring(['NotFound'], exports.getExport(target.id)));
  const copy = known ?? (await beginCopy(parts, exports, target, work));
  if (copy.state === 'Copying')
    return { kind: 'copying', progress: Math.floor((copy.progress * exportShare) / 100) };
  if (copy.state === 'Failed') {
    // It makes room, and the next try begins anew.
    await exports.deleteExport(target.id).catch(() => undefined);
    const message = `VM ${vm}: its disk could not be copied: ${copy.message ?? 'nobody knows why'}`;
    throw new StepFailed({ reason: 'WorkerFailed', message }, undefined);
  }
  // A second ticket would make the one of a pod that the cache does not show yet void.
  const worker = await workerOf(client, target);
  if (worker !== undefined) return { kind: 'started', pod: worker.metadata.name };
  const { ticket, path, memoryPath } = await atRunner(vm, () => exports.exportTicket(target.id));
  if (hasMemory && memoryPath === undefined) {
    const message = `VM ${vm}: the runner of its pod is of an older version, which saves no memory`;
    throw new StepFailed({ reason: 'RunnerUnreachable', message }, undefined);
  }
  await atCluster(() =>
    writeTickets(client, target, { [target.id]: Buffer.from(ticket).toString('base64') }),
  );
  return startWorker(
    parts,
    target,
    {
      type: 'export',
      address: runner.address,
      port: settings.runnerPort,
      fingerprint: exports.fingerprint() ?? runner.fingerprint ?? '',
      path,
      ...(hasMemory ? { memoryPath } : {}),
    },
    source.architecture,
  );
}

/** Only where the runner has none of this piece of work: one that is asked to begin a copy that failed says nothing of that. */
async function beginCopy(
  { client }: PodWorkParts,
  exports: RunnerExports,
  { id, disk }: PodWork,
  { vm, source }: ExportWork,
): Promise<RunnerExport> {
  const { uid, namespace } = disk.metadata;
  const limit = await podLimitOf(client, source, namespace);
  return atRunner(vm, () => exports.startExport(id, uid, wantsMemory(disk), limit));
}

/**
 * The limit that the kubelet holds the pod of the VM's disk to (`storageLimitOf`), which the runner cannot see; undefined where there is none. A LimitRange gives it when
 * the pod is made, so that it stands in kube-apiserver alone.
 */
async function podLimitOf(
  client: KubeClient,
  { podName, podUid }: ExportWork['source'],
  namespace: string,
): Promise<number | undefined> {
  if (podName === undefined) return undefined;
  const pod = await ignoring(['NotFound'], client.get(pods, podName, namespace));
  const isOther = podUid !== undefined && pod?.metadata.uid !== podUid;
  return pod === undefined || isOther ? undefined : storageLimitOf(pod);
}

/** Makes the worker pod; one of this disk that is there already does the same work. */
export async function startWorker(
  parts: PodWorkParts,
  target: PodWork,
  source: WorkSource,
  architecture = architectureOf(target.disk),
): Promise<Started> {
  const spec = await workSpec(parts, target, source, architecture);
  const pod = buildWorkerPod({ ...target, spec, settings: parts.settings });
  try {
    await atCluster(() => parts.client.create(pods, pod));
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists') || (await workerOf(parts.client, target)) === undefined)
      throw error;
  }
  return { kind: 'started', pod: pod.metadata.name };
}

async function workSpec(
  { settings, registries }: PodWorkParts,
  { disk, kind, path, id }: PodWork,
  source: WorkSource,
  architecture: 'amd64' | 'arm64',
): Promise<WorkSpec> {
  const namespace = disk.metadata.namespace;
  const hosts = new Set([path.registry, ...(source.type === 'export' ? [] : [registryOf(source)])]);
  const access = await Promise.all(
    [...hosts].map(async (host) => [host, await registries.access(namespace, host)] as const),
  );
  return {
    version: 1,
    kind,
    source,
    target: { ...path, tag: id },
    registries: Object.fromEntries(access),
    architecture,
    limits: { virtualBytes: settings.maxVirtualBytes, fileBytes: settings.scratchBytes },
    port: settings.workerPort,
  };
}

/** @throws StepFailed where what is named is no reference: nobody else says so of an object that was applied. */
function registryOf({ type, reference }: Exclude<WorkSource, { type: 'export' }>): string {
  try {
    return remoteRegistry(
      reference,
      type === 'remote' ? 'spec.source.remote.reference' : 'spec.source.upload',
    );
  } catch (error) {
    if (!isSvc3Error(error, 'Invalid')) throw error;
    throw new StepFailed({ reason: 'SourceNotFound', message: messageOf(error).slice(0, 1024) }, error);
  }
}

/**
 * The worker pod as kube-apiserver has it, undefined where there is none.
 *
 * @throws StepFailed where another pod has its name, or it is on its way out: no work will come of that.
 */
async function workerOf(client: KubeClient, { disk, kind, id }: PodWork): Promise<Pod | undefined> {
  const name = workerPodName(id);
  let pod: Pod;
  try {
    pod = await client.get(pods, name, disk.metadata.namespace);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
  if (isTerminating(pod)) throw refused(`pod ${name} is being deleted; another is made when it is gone`);
  if (isOwnedBy(pod, disk)) return pod;
  throw refused(`pod ${name} exists and does not belong to ${kind} ${disk.metadata.name}; delete it`);
}

function refused(message: string): StepFailed {
  return new StepFailed({ reason: 'WorkerRefused', message }, undefined);
}

const ticketLabels = { [labels.partOf]: 'svc3', [labels.component]: 'worker' } as const;

/**
 * Each disk owns its entries of the namespace's one Secret, and one of the Secret's owner references, by a field manager of
 * its own. So Kubernetes' garbage collector deletes the Secret with the last disk that had a ticket in it: nobody here has to
 * know whether others still need it, which no precondition could tell from a server-side apply that is on its way. Without a ticket a disk
 * owns nothing else of it: with the owner that is gone the collector takes the manager's entry away, and the Secret does not grow with
 * each disk that there ever was.
 */
async function writeTickets(
  client: KubeClient,
  { disk, kind }: Pick<PodWork, 'disk' | 'kind'>,
  data?: Record<string, string>,
): Promise<void> {
  const { name, namespace, uid } = disk.metadata;
  const secret: Submitted<Secret> = {
    ...typeMeta(secrets),
    metadata: {
      name: ticketSecret,
      namespace,
      ...(data === undefined ? {} : { labels: ticketLabels }),
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    ...(data === undefined ? {} : { data }),
  };
  await client.apply(secrets, secret, { fieldManager: `svc3-worker-${uid}` });
}

/**
 * Takes ticket and copy of a piece of work away. A copy that cannot be reached now makes room when the runner needs it. A ticket that cannot
 * be taken away is no reason to stay: it is good for the copy alone, and for an hour at most.
 *
 * @returns why the ticket stays, for people; undefined where it does not
 */
export async function forgetExport(
  { client, openRunner }: PodWorkParts,
  target: Pick<PodWork, 'disk' | 'kind' | 'id'>,
  vm: { uid: string; runner: { address: string; fingerprint: string | undefined } | undefined } | undefined,
): Promise<string | undefined> {
  const refusal = await refusalOf(writeTickets(client, target));
  if (vm?.runner !== undefined) {
    const { address, fingerprint } = vm.runner;
    await openRunner?.({ address, vmUid: vm.uid, pin: fingerprint })
      .deleteExport(target.id)
      .catch(() => undefined);
  }
  return refusal === undefined
    ? undefined
    : `the ticket of its worker stays in Secret ${ticketSecret}: ${refusal}`;
}

/** Why a ticket is not taken away, whoever tries again, as where the Secret was made immutable. What may pass is thrown. */
async function refusalOf(write: Promise<void>): Promise<string | undefined> {
  try {
    await write;
    return undefined;
  } catch (error) {
    // The namespace is being deleted, with the Secret.
    if (isSvc3Error(error, 'Forbidden', 'NotFound')) return undefined;
    if (!isSvc3Error(error) || isPassing(error) || error.reason === 'Conflict') throw error;
    return error.message;
  }
}
