import type { Pod } from '../../api/core.ts';
import { isTerminating } from '../../api/owner.ts';
import { namespaces, pods } from '../../api/resources.ts';
import { splitKey } from '../../controller/controller.ts';
import { hasFinalizer } from '../../api/finalizer.ts';
import { addFinalizer, removeFinalizer } from '../../controller/finalizer.ts';
import { ignoring } from '../../controller/ignoring.ts';
import { msUntil } from '../../controller/servedtime.ts';
import { isSvc3Error, Svc3Error } from '../../errors.ts';
import { resourcePath } from '../../kube/path.ts';
import type { ReconcileResult } from '../../kube/types.ts';
import type { Expectations } from '../../controller/expectations.ts';
import { askProgress } from './askprogress.ts';
import { awaitUpload } from './awaitedupload.ts';
import { resourceOf, type Disk } from './caches.ts';
import {
  decide,
  inUse,
  isGivenUp,
  watchMs,
  type Export,
  type Observed,
  type Plan,
  type Verdict,
  type Work,
} from './decide.ts';
import { atRegistry, atTicket, StepFailed, verdictOf } from './failure.ts';
import {
  answerTo,
  askedArchitecture,
  takenFrom,
  uploadOf,
  vmNameOf,
  workerPodName,
  workId,
} from './names.ts';
import { LeftUploads } from './leftuploads.ts';
import { isUnprepared } from '../startwaits.ts';
import { observe, type ObserveParts } from './observe.ts';
import { formerPlaceOf, type RepositoryPath } from './repositorypath.ts';
import { exportShare, forgetExport, startExport, startWorker, type PodWorkParts } from './podwork.ts';
import { Reporter, type ReporterParts } from './reporter.ts';
import {
  answeredStatus,
  refusedStatus,
  storedBy,
  storedStatus,
  verdictStatus,
  type Stored,
} from './status.ts';
import { copyInStore, forgetUpload, makeBlank, purge } from './storework.ts';
import type { LiveUsers } from './users.ts';
import type { VanishedDisks } from './vanished.ts';
import { lostAt } from './workerview.ts';

export interface ImageReconcilerParts extends PodWorkParts, ReporterParts, ObserveParts {
  readonly expected: Expectations<Disk>;
  readonly vanished: VanishedDisks;
  readonly liveUsers: LiveUsers;
  readonly now: () => Date;
}

/** How soon a runner that copies a disk is asked again. */
const copyPollMs = 1_000;

/** The cache does not show a user yet that kube-apiserver has: its event wakes the disk as well. */
const usersPollMs = 1_000;

/** One pass over one Image or ISO: observe, decide, act, report. */
export class ImageReconciler {
  readonly #parts: ImageReconcilerParts;
  readonly #reporter: Reporter;
  readonly #leftUploads: LeftUploads;

  constructor(parts: ImageReconcilerParts) {
    this.#parts = parts;
    this.#reporter = new Reporter(parts);
    this.#leftUploads = new LeftUploads(parts.registries, parts.settings.uploadExpiryMs);
  }

  async reconcile(key: string, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { caches, expected, now } = this.#parts;
    const { namespace = '', name } = splitKey(key);
    const cached = caches.disks.get(name, namespace);
    const disk = cached === undefined ? undefined : expected.current(key, cached);
    if (disk === undefined) return this.#followVanished(key, signal);
    const isDeleted = disk.metadata.deletionTimestamp !== undefined;
    if (isDeleted && !hasFinalizer(disk)) return;
    const held = isDeleted ? disk : await this.#hold(key, disk);
    const observed = observe(this.#parts, held, now().getTime());
    const plan = decide(observed);
    try {
      return await this.#act(key, observed, plan, signal);
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      return this.#fail(observed, error.verdict);
    }
  }

  async #act(
    key: string,
    observed: Observed,
    plan: Plan,
    signal: AbortSignal,
  ): Promise<ReconcileResult | void> {
    const { disk } = observed;
    switch (plan.kind) {
      case 'stored':
        return this.#keepTrue(observed, plan.cleanUp);
      case 'say':
        await this.#say(observed, plan.verdict);
        return plan.requeueAfterMs === undefined ? undefined : { requeueAfterMs: plan.requeueAfterMs };
      case 'await': {
        const { registries, settings } = this.#parts;
        const awaited = { ...observed, waiting: plan.verdict };
        const { verdict, requeueAfterMs } = await awaitUpload(registries, settings.uploadExpiryMs, awaited);
        await this.#say(observed, verdict);
        return { requeueAfterMs };
      }
      case 'work':
        return this.#work(observed, plan.work, signal);
      case 'watch':
        return this.#watch(observed, plan.worker);
      case 'finish':
        return this.#finish(observed, storedBy(plan.result, knownPath(observed)));
      case 'refuse':
        return this.#refuse(observed, plan.verdict);
      case 'retry':
        await this.#say(observed, verdictOf(plan.failure));
        return this.#deletePods(disk);
      case 'stopWorkers':
        return this.#deletePods(disk);
      case 'purge':
        return this.#purge(key, observed, signal);
      default:
        this.#tellFormer(observed);
        return this.#release(key, observed);
    }
  }

  /** A commit that was withdrawn ends before the status forgets it; nothing else that is cleaned up holds the status back. */
  async #keepTrue(observed: Observed, cleanUp: boolean): Promise<ReconcileResult | undefined> {
    const { disk } = observed;
    if (cleanUp) await this.#forgetExport(observed);
    await this.#reporter.report(disk, answeredStatus(disk, this.#parts.now()));
    if (cleanUp) await this.#endWork(observed);
    return this.#leftUploads.look(observed);
  }

  async #work(observed: Observed, work: Work, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { disk, kind, request = '' } = observed;
    const { registries } = this.#parts;
    await this.#confirm(disk);
    const path = knownPath(observed);
    const id = workId(disk, request);
    const target = { disk, kind, path, id };
    const inStore = { registries, disk, path, tag: id, signal };
    switch (work.kind) {
      case 'blank':
        return this.#finish(observed, await atRegistry(() => makeBlank(inStore, work.size)));
      case 'copy': {
        const { status } = work.source;
        const stored = await atRegistry(() => unlessImpossible(copyInStore(inStore, status)));
        if (stored !== undefined) return this.#finish(observed, stored);
        await startWorker(this.#parts, target, { type: 'remote', reference: status.reference ?? '' });
        return this.#sayWorking(observed, 'a worker pod copies the disk: the store does not mount blobs');
      }
      case 'pull':
        await startWorker(this.#parts, target, {
          type: 'remote',
          reference: work.reference,
          architecture: askedArchitecture(disk),
        });
        return this.#sayWorking(observed, `pulling ${work.reference}`);
      case 'upload': {
        const reference = `${path.registry}/${path.repository}@${work.digest}`;
        await startWorker(this.#parts, target, { type: 'upload', reference });
        return this.#sayWorking(observed, 'the upload is being inspected');
      }
      default: {
        const started = await startExport(this.#parts, target, work);
        if (started.kind === 'started')
          return this.#sayWorking(observed, `saving the disk of VM ${work.vm}`, exportShare);
        await this.#sayWorking(observed, `the runner of VM ${work.vm} copies its disk`, started.progress);
        return { requeueAfterMs: copyPollMs };
      }
    }
  }

  /**
   * A disk that is made a second time leaves the first one in the store, where nobody knows it any more: the cache may not show yet that it
   * is there.
   */
  async #confirm({ metadata }: Disk): Promise<void> {
    const { client, kind } = this.#parts;
    const { name, namespace, resourceVersion } = metadata;
    const now = await client.get(resourceOf(kind), name, namespace);
    if (now.metadata.resourceVersion !== resourceVersion)
      throw new Svc3Error('Conflict', `${kind} ${name} has changed since it was seen`);
  }

  #sayWorking(observed: Observed, message: string, progress = 0): Promise<void> {
    return this.#say(observed, { reason: 'Working', message, progress });
  }

  async #watch(
    { disk, request = '' }: Observed,
    worker: Extract<Plan, { kind: 'watch' }>['worker'],
  ): Promise<ReconcileResult> {
    const { settings, now } = this.#parts;
    const { address, phase } = worker;
    const asked =
      phase === 'Running' && address !== undefined
        ? await askProgress(address, settings.workerPort)
        : undefined;
    const share = isExport(disk) ? exportShare : 0;
    const known = disk.status?.progress ?? share;
    const progress = asked === undefined ? known : Math.floor(share + (asked * (100 - share)) / 100);
    const status = verdictStatus(
      disk,
      { reason: 'Working', message: worker.message, progress: Math.max(known, progress) },
      now(),
      { worker: workerPodName(workId(disk, request)) },
    );
    await this.#reporter.report(disk, status);
    return { requeueAfterMs: watchMs };
  }

  /** Status first: a pod that is gone without its result being known would do the work again. */
  async #finish(observed: Observed, stored: Stored): Promise<void> {
    const { disk, request = '' } = observed;
    const { now, backoff } = this.#parts;
    await this.#reporter.report(disk, storedStatus(disk, now(), { stored, answer: answerTo(disk, request) }));
    this.#tellReplaced(observed);
    backoff.clear(workId(disk, request));
    await this.#cleanUp(observed);
  }

  async #refuse(observed: Observed, verdict: Verdict): Promise<void> {
    const { disk, request = '' } = observed;
    const status = refusedStatus(disk, verdict, this.#parts.now(), answerTo(disk, request));
    await this.#reporter.report(disk, status);
    await this.#cleanUp(observed);
  }

  /** A step failed: say so, and try again after its backoff unless that is of no use. */
  async #fail(observed: Observed, verdict: Verdict): Promise<ReconcileResult | void> {
    const { disk, request = '', now } = observed;
    if (isFinal(verdict)) return this.#refuse(observed, verdict);
    await this.#say(observed, verdict);
    const at = this.#parts.backoff.failed(workId(disk, request), String(now));
    return { requeueAfterMs: Math.max(100, at - now) };
  }

  /** From the moment there is a disk it stays known whose it is, and of which pod: another VM of the name may come, and another pod. */
  async #say({ disk, vmSource }: Observed, verdict: Verdict): Promise<void> {
    const known = takenFrom(disk);
    const vmUid = known?.vmUid ?? (vmSource?.runner === undefined ? undefined : vmSource.uid);
    const podUid = known?.podUid ?? (vmUid === vmSource?.uid ? vmSource?.podUid : undefined);
    const taken = vmUid === undefined ? undefined : { vmUid, podUid };
    await this.#reporter.report(disk, verdictStatus(disk, verdict, this.#parts.now(), { taken }));
  }

  async #cleanUp(observed: Observed): Promise<void> {
    await this.#forgetExport(observed);
    await this.#endWork(observed);
  }

  async #forgetExport(observed: Observed): Promise<void> {
    const { disk, kind } = observed;
    const left = exportOf(observed);
    if (left === undefined) return;
    const kept = await forgetExport(this.#parts, { disk, kind, id: left.id }, left.vm);
    if (kept !== undefined) this.#reporter.warn(disk, 'TicketKept', kept);
  }

  /** What was uploaded goes before the pods: as long as they are there, a clean-up that was cut short is made again. */
  async #endWork(observed: Observed): Promise<void> {
    const { disk, hasPods } = observed;
    if (!hasPods || this.#livePods(disk).length === 0) return;
    await this.#forgetUpload(observed);
    await this.#deletePods(disk);
  }

  async #forgetUpload({ disk, path, request = '' }: Observed): Promise<void> {
    const upload = uploadOf(disk, request);
    if (upload === undefined || path === undefined) return;
    const { registries } = this.#parts;
    await forgetUpload({ registries, disk, path, tag: workId(disk, request) }, upload);
  }

  /**
   * Ends worker pods, and gives up those that are lost: theirs is the name that the next one needs. Our clock alone takes none for lost, since a worker
   * that still ends in its time would put into the store what nobody expects any more.
   *
   * @returns when the next of them is to be looked at; undefined where none is waited for
   */
  async #deletePods(disk: Disk): Promise<ReconcileResult | undefined> {
    const { client, caches } = this.#parts;
    const waits: number[] = [];
    for (const pod of caches.podsOf(disk)) {
      const { name, namespace, uid, resourceVersion } = pod.metadata;
      const lost = lostAt(pod);
      const leftMs = lost === undefined ? 0 : await this.#msUntilLost(pod, lost);
      if (leftMs > 0) {
        waits.push(leftMs);
        continue;
      }
      // It may have begun since the cache showed that it had not: then its event wakes the disk.
      const seen = lost === undefined && isUnprepared(pod) ? { resourceVersion } : {};
      const options = { uid, ...seen, ...(lost === undefined ? {} : { gracePeriodSeconds: 0 }) };
      await ignoring(['NotFound', 'Conflict'], client.delete(pods, { name, namespace }, options));
    }
    return waits.length === 0 ? undefined : { requeueAfterMs: Math.min(...waits) };
  }

  #msUntilLost({ metadata: { name, namespace } }: Pod, lost: number): Promise<number> {
    const { client, now } = this.#parts;
    return msUntil(client, resourcePath(pods, { name, namespace }), { endsAt: lost, now: now().getTime() });
  }

  #livePods(disk: Disk): Pod[] {
    return this.#parts.caches.podsOf(disk).filter((pod) => !isTerminating(pod));
  }

  async #purge(key: string, observed: Observed, signal: AbortSignal): Promise<ReconcileResult | void> {
    if ((await this.#owner(observed.disk)) !== observed.disk.metadata.uid) return undefined;
    const users = await this.#parts.liveUsers(observed);
    if (users !== undefined) {
      await this.#say(observed, inUse(users).verdict);
      return { requeueAfterMs: usersPollMs };
    }
    await this.#purgeStore(observed, signal);
    return this.#release(key, observed);
  }

  /** Takes what lies in the store, and says so where it has to stay: what lies elsewhere may be another installation's by now. */
  async #purgeStore(observed: Observed, signal: AbortSignal): Promise<void> {
    const { disk } = observed;
    const path = knownPath(observed);
    const { registries } = this.#parts;
    try {
      const kept = await atRegistry(() => purge({ registries, disk, path, signal }));
      if (kept !== undefined) this.#reporter.warn(disk, 'KeptInStore', kept);
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      const isOver = isGivenUp(observed, error.verdict);
      // With the namespace its credential goes; nobody could ever delete from the store then.
      if (!isOver && !(await this.#isNamespaceGoing(disk))) throw error;
      if (disk.status?.digest !== undefined)
        this.#reporter.warn(disk, 'KeptInStore', `what was stored stays in the store: ${error.message}`);
    }
    this.#tellFormer(observed);
  }

  /** Says what stays in a store that is not this installation's now, or where it has none any more. */
  #tellFormer({ disk, path }: Observed): void {
    const former = formerPlaceOf(disk, path);
    if (former === undefined) return;
    const why =
      path === undefined
        ? 'and this installation has no image store now'
        : 'which is not where this installation stores it now';
    const message = `was stored at ${former.registry}/${former.repository}, ${why}: nothing is deleted there`;
    this.#reporter.warn(disk, 'KeptInStore', message);
  }

  /** Says where the versions before lie, while it is known: the status names the place of the newest alone. */
  #tellReplaced({ disk, path }: Observed): void {
    const former = formerPlaceOf(disk, path);
    if (former === undefined) return;
    const where = `${former.registry}/${former.repository}, which is not where this installation stores it now`;
    const message = `versions before this one lie at ${where}: they are used from there, and nothing is deleted there`;
    this.#reporter.warn(disk, 'KeptInStore', message);
  }

  /** UID of the object that has the name now: the cache may be behind, and what lies in the store may be another's. */
  async #owner({ metadata }: Disk): Promise<string | undefined> {
    const { client, kind } = this.#parts;
    const { name, namespace } = metadata;
    const now = await ignoring(['NotFound'], client.get(resourceOf(kind), name, namespace));
    return now?.metadata.uid;
  }

  /** Ends a disk whose object is gone before its time, like one that was deleted; the next of its name takes what is there over. */
  async #followVanished(key: string, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { vanished, now } = this.#parts;
    const disk = vanished.deleted(key, now());
    if (disk === undefined) return undefined;
    const observed = observe(this.#parts, disk, now().getTime());
    const plan = decide(observed);
    if (plan.kind === 'stopWorkers') await this.#deletePods(disk);
    if (plan.kind === 'stopWorkers' || plan.kind === 'say') return { requeueAfterMs: copyPollMs };
    if (plan.kind === 'purge' && (await this.#owner(disk)) === undefined) {
      if ((await this.#parts.liveUsers(observed)) !== undefined) return { requeueAfterMs: usersPollMs };
      await this.#purgeStore(observed, signal);
    }
    if (plan.kind === 'release') this.#tellFormer(observed);
    vanished.forget(key);
    this.#parts.backoff.clear(workId(disk, observed.request ?? ''));
    this.#forget(disk);
    return undefined;
  }

  async #isNamespaceGoing({ metadata }: Disk): Promise<boolean> {
    const namespace = await this.#parts.client.get(namespaces, metadata.namespace);
    return namespace.metadata.deletionTimestamp !== undefined;
  }

  async #release(key: string, observed: Observed): Promise<void> {
    const { disk, request = '' } = observed;
    if (exportOf(observed) !== undefined) await atTicket(() => this.#forgetExport(observed));
    this.#parts.backoff.clear(workId(disk, request));
    this.#forget(disk);
    const { client, kind, expected } = this.#parts;
    await removeFinalizer(client, resourceOf(kind), disk, { expected, key });
  }

  #forget({ metadata }: Disk): void {
    this.#reporter.forget(metadata.uid);
    this.#leftUploads.forget(metadata.uid);
  }

  async #hold(key: string, disk: Disk): Promise<Disk> {
    if (hasFinalizer(disk)) return disk;
    const { client, kind, expected } = this.#parts;
    const held = await addFinalizer(client, resourceOf(kind), disk);
    expected.wrote(key, held);
    return held;
  }
}

/** No further try has another end. */
function isFinal({ reason }: Verdict): boolean {
  return reason === 'DiskRefused' || reason === 'MemoryRefused';
}

function isExport(disk: Disk): boolean {
  return vmNameOf(disk) !== undefined;
}

/** What a ticket and a copy may be left of: a commit that was withdrawn, else the request where it is about the disk of a VM. */
function exportOf({ disk, request = '', vmSource, withdrawn }: Observed): Export | undefined {
  if (withdrawn !== undefined) return withdrawn;
  return isExport(disk) ? { id: workId(disk, request), vm: vmSource } : undefined;
}

function knownPath({ path }: Observed): RepositoryPath {
  if (path === undefined) throw new TypeError('there is no store');
  return path;
}

async function unlessImpossible<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (isSvc3Error(error, 'NotImplemented')) return undefined;
    throw error;
  }
}
