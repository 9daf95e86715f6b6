import type { SelfSubjectReview } from '../../../api/core.ts';
import { images, selfSubjectReviews, vmConfigs, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { invalidField, isSvc3Error, Svc3Error } from '../../../errors.ts';
import * as vmSchemas from '../../../wire/vmschemas.ts';
import { didNotRun, vmOf, type DeployRequest } from '../../../wire/deploy.ts';
import { removeNeverRun } from '../../../wire/removal.ts';
import { deployItem, vmMessage, vmState, type DeployItem } from '../../../wire/vm.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { WaitOptions } from '../types.ts';
import { checked } from './checked.ts';
import { waitFor } from './wait.ts';

/** The installation's own range is known to the operator, who says in the status which mapping it cannot give. */
const anyHostPort = { first: 1, last: 65_535 };

/** The operator enforces the deadline; this side waits a little longer so that its word comes first. */
const deadlineGraceMs = 5000;

/**
 * Creates a VM with the user's own rights and waits until it runs; one that never will is removed again. At its start
 * deadline the operator alone removes it.
 */
export async function deploy(
  client: KubeClient,
  namespace: string,
  given: DeployRequest,
  options: WaitOptions,
): Promise<DeployItem> {
  const request = checked(vmSchemas.deployBody, given);
  if (request.image === undefined && request.vmConfig === undefined) {
    throw invalidField('image', 'image or vmConfig is required', 'FieldValueRequired');
  }
  const [owner] = await Promise.all([usernameOf(client), requireSources(client, namespace, request)]);
  const { vm: wished, portWarnings } = vmOf(request, {
    namespace,
    hostPortsAllowed: anyHostPort,
    withoutDeadline: !options.wait,
    ...(owner === undefined ? {} : { owner }),
  });
  const created = await client.create(vms, wished);
  const vm = options.wait ? await settled(client, created, options) : created;
  return deployItem(vm, [...portWarnings, ...(vm.status?.warnings ?? [])]);
}

/** What can be known to be missing before the VM exists. */
async function requireSources(client: KubeClient, namespace: string, request: DeployRequest): Promise<void> {
  const config = await found(
    () => (request.vmConfig === undefined ? undefined : client.get(vmConfigs, request.vmConfig, namespace)),
    () => new Svc3Error('NotFound', `${request.vmConfig} config does not exist`),
  );
  const image = request.image ?? config?.spec.image;
  if (image !== undefined && !image.includes('/')) await found(() => client.get(images, image, namespace));
}

/** Who may create VMs need not read configurations and images: the operator does. */
async function found<T>(
  get: () => Promise<T> | undefined,
  missing?: () => Svc3Error,
): Promise<T | undefined> {
  try {
    return await get();
  } catch (error) {
    if (isSvc3Error(error, 'Forbidden')) return undefined;
    throw isSvc3Error(error, 'NotFound') && missing !== undefined ? missing() : error;
  }
}

/** The caller's name as kube-apiserver knows it; a cluster without that API has none. */
async function usernameOf(client: KubeClient): Promise<string | undefined> {
  try {
    const review: SelfSubjectReview = await client.create(selfSubjectReviews, {});
    return review.status?.userInfo?.username;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden', 'MethodNotAllowed')) return undefined;
    throw error;
  }
}

async function settled(client: KubeClient, created: Vm, { signal, progress }: WaitOptions): Promise<Vm> {
  const { name = '' } = created.metadata;
  let last = created;
  const found = await waitFor(client, vms, created, {
    timeoutMs: (created.spec.startDeadlineSeconds ?? 600) * 1000 + deadlineGraceMs,
    signal,
    done(vm) {
      last = vm;
      progress(`${name}: ${vmMessage(vm) ?? vmState(vm)}`);
      return vmState(vm) === 'Running' || vmState(vm) === 'Failed';
    },
  });
  if (found?.done === true && vmState(found.object) === 'Running') return found.object;
  if (found?.done !== true) throw didNotRun(last, found === undefined ? 'removed' : 'left');
  await removeNeverRun(last, { caller: client, writer: client });
  throw new Svc3Error('Invalid', vmMessage(last) ?? `VM ${name} cannot run`);
}
