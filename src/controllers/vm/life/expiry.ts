import { configKeyOf } from '../../../api/configkey.ts';
import { nodes, persistentVolumeClaims, pods, vmConfigs, vmPools, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import type { KubeObject, Resource } from '../../../api/object.ts';
import { resourcePath } from '../../../kube/path.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { nodeOf } from '../../../placement/podfacts.ts';
import type { Observed } from '../decide.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import { servedAt } from '../../../controller/servedtime.ts';
import { podNamesOf } from '../names.ts';
import { claimNameOf } from '../facts/claim.ts';
import { isPodOf, podAmong } from '../facts/ownpod.ts';
import type { Runners } from '../runner/runners.ts';
import { hasStarted, type StartEvidence } from '../facts/started.ts';
import { templated } from '../facts/standby.ts';
import { startDeadline } from '../facts/startdeadline.ts';

/** A VM that the start deadline leaves alone for now is looked at again, in milliseconds. */
export const expiryPollMs = 30_000;

interface Parts {
  readonly client: KubeClient;
  readonly runners: Runners | undefined;
  now(): Date;
}

/**
 * The VM as it is now, where its start deadline is over and its guest provably has never run; undefined where one of
 * them is not so, or is not known yet.
 *
 * Caches, and a status that we write ourselves, may be behind by as long as the operator was away or busy: before a VM
 * is deleted its runner is asked, then kube-apiserver. A runner is asked beside the passes and wakes the VM. The deadline counts from no
 * earlier a time than kube-apiserver's clock showed when the VM was made: one of ours that is ahead brings no deletion forward.
 */
export async function expired(key: string, observed: Observed, parts: Parts): Promise<Vm | undefined> {
  const { vm, pod, node, claim } = observed;
  const isOwn = pod !== undefined && isPodOf(pod, vm);
  const runner = isOwn ? parts.runners?.recent(key, vm, pod) : undefined;
  if (hasStarted({ vm, pod, node, claim, runner }) !== 'no') return undefined;
  const now = await evidenceNow(vm, parts.client);
  if (now === undefined || hasStarted({ ...now, runner: answerOf(observed, now, runner) }) !== 'no')
    return undefined;
  const deadline = startDeadline(await asPlannedNow(now.vm, parts.client));
  const time = Math.min(parts.now().getTime(), now.servedAt);
  return deadline !== undefined && time >= deadline ? now.vm : undefined;
}

/** Of a VM that has not been placed its VMConfig or VMPool says the deadline, and may have said another when the VM's status was written. */
async function asPlannedNow(vm: Vm, client: KubeClient): Promise<Vm> {
  const { spec, status } = vm;
  if (spec.startDeadlineSeconds !== undefined || status?.effective !== undefined) return vm;
  if (status?.planned?.startDeadlineSeconds === undefined) return vm;
  const { startDeadlineSeconds: _before, ...planned } = status.planned;
  const startDeadlineSeconds = await deadlineOfTemplate(vm, client);
  const said = startDeadlineSeconds === undefined ? {} : { startDeadlineSeconds };
  return { ...vm, status: { ...status, planned: { ...planned, ...said } } };
}

/** Undefined where the template says none, and where it is gone. */
async function deadlineOfTemplate(vm: Vm, client: KubeClient): Promise<number | undefined> {
  const { pool: poolName } = vm.spec;
  const pool =
    poolName === undefined ? undefined : await found(client, vmPools, poolName, vm.metadata.namespace);
  const asked = pool === undefined ? vm : templated(vm, pool);
  if (asked.spec.startDeadlineSeconds !== undefined) return asked.spec.startDeadlineSeconds;
  const key = configKeyOf(asked);
  const config = key === undefined ? undefined : await found(client, vmConfigs, key.name, key.namespace);
  return config?.spec.startDeadlineSeconds;
}

/** The answer is good for the pod that was asked. */
function answerOf(
  { pod }: Observed,
  now: StartEvidence,
  runner: StartEvidence['runner'],
): StartEvidence['runner'] {
  return pod?.metadata.uid === now.pod?.metadata.uid ? runner : undefined;
}

interface EvidenceNow extends StartEvidence {
  /** By kube-apiserver's clock, in milliseconds since 1970; Infinity where it does not say. */
  readonly servedAt: number;
}

/** What kube-apiserver says, without caches; undefined where the VM is gone or going. */
async function evidenceNow(vm: Vm, client: KubeClient): Promise<EvidenceNow | undefined> {
  const { name, namespace, uid } = vm.metadata;
  const path = resourcePath(vms, { name, namespace });
  const [reply, claim, ...seen] = await Promise.all([
    ignoring(['NotFound'], client.request<Vm>({ method: 'GET', path })),
    found(client, persistentVolumeClaims, claimNameOf(vm), namespace),
    ...podNamesOf(vm).map((podName) => found(client, pods, podName, namespace)),
  ]);
  if (reply === undefined || reply.body.metadata.uid !== uid) return undefined;
  const current = reply.body;
  const pod = podAmong(current, seen);
  if (current.metadata.deletionTimestamp !== undefined) return undefined;
  const nodeName = pod === undefined ? undefined : nodeOf(pod);
  const node = nodeName === undefined ? undefined : await found(client, nodes, nodeName);
  return { vm: current, pod, node, claim, runner: undefined, servedAt: servedAt(reply) };
}

function found<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  name: string,
  namespace?: string,
): Promise<T | undefined> {
  return ignoring(['NotFound'], client.get(resource, name, namespace));
}
