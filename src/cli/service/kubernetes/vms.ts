import { randomUUID } from 'node:crypto';
import { events, images, selfSubjectReviews, vmConfigs, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import type { SelfSubjectReview } from '../../../api/core.ts';
import { invalidField, isSvc3Error, Svc3Error } from '../../../errors.ts';
import { imageItem } from '../../../items/image.ts';
import { vmOf, type DeployRequest } from '../../../items/deploy.ts';
import { conditionOf, deployItem, vmItem, vmMessage, vmState } from '../../../items/vm.ts';
import type { KubeClient } from '../../../kube/types.ts';
import { sleep } from '../../output.ts';
import type { DeployOptions, PowerCommand, Service, Vms } from '../types.ts';

const pollMs = 500;
/** The installation's own range is known to the operator, who says in the status which mapping it cannot give. */
const anyHostPort = { first: 1, last: 65_535 };
const defaultTimeoutMinutes = 10;
/** The operator enforces the deadline; this side waits a little longer so that its word comes first. */
const graceMs = 15_000;

export function createVms(client: KubeClient, http: () => Promise<Service>): Vms {
  const patch = async (namespace: string, name: string, spec: Record<string, unknown>) => {
    await client.patch(vms, { name, namespace }, { type: 'merge', body: { spec } });
  };
  return {
    async list(namespace) {
      const { items } = await client.list(vms, { namespace });
      return items.map(vmItem);
    },
    get: async (namespace, name) => vmItem(await client.get(vms, name, namespace)),
    deploy: (namespace, request, options) => deploy(client, namespace, request, options),
    delete: (namespace, name) => client.delete(vms, { name, namespace }),
    exec: (namespace, name, command) => patch(namespace, name, powerPatches[command]()),
    save: async (namespace, name, { imageName, description }) => {
      await client.get(vms, name, namespace);
      const source = { vm: { name, mode: 'Save' as const } };
      const spec = { source, ...(description === undefined ? {} : { description }) };
      return imageItem(await client.create(images, { metadata: { name: imageName, namespace }, spec }));
    },
    commit: (namespace, name, { description }) => commit(client, namespace, name, description),
    resize: (namespace, name, gib) => patch(namespace, name, { disk: { size: `${gib}Gi` } }),
    eject: (namespace, name) => patch(namespace, name, { iso: null }),
    explain: (namespace, name) => explain(client, namespace, name),
    tunnel: async (namespace, name, port) => (await http()).vms.tunnel(namespace, name, port),
    screen: async (namespace, name) => (await http()).vms.screen(namespace, name),
    consoleUrl: async (namespace, name) => (await http()).vms.consoleUrl(namespace, name),
  };
}

const powerPatches: Readonly<Record<PowerCommand, () => Record<string, unknown>>> = {
  start: () => ({ powerState: 'Running' }),
  resume: () => ({ powerState: 'Running' }),
  stop: () => ({ powerState: 'Stopped' }),
  suspend: () => ({ powerState: 'Suspended' }),
  revert: () => ({ revertRequest: randomUUID() }),
};

async function deploy(client: KubeClient, namespace: string, request: DeployRequest, options: DeployOptions) {
  const timeout = request.timeout ?? defaultTimeoutMinutes;
  if (timeout <= 0) throw invalidField('timeout', 'must be at least 1 minute');
  const [owner] = await Promise.all([usernameOf(client), checkConfig(client, namespace, request.vmConfig)]);
  const { vm: wished, portWarnings } = vmOf(
    { ...request, timeout },
    { namespace, hostPortsAllowed: anyHostPort, ...(owner === undefined ? {} : { owner }) },
  );
  const created = await client.create(vms, wished);
  const vm = options.wait
    ? await running(client, created, { ...options, timeoutMs: timeout * 60_000 })
    : created;
  return deployItem(vm, [...portWarnings, ...(vm.status?.warnings ?? [])]);
}

async function checkConfig(client: KubeClient, namespace: string, config: string | undefined): Promise<void> {
  if (config === undefined) return;
  try {
    await client.get(vmConfigs, config, namespace);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound'))
      throw new Svc3Error('NotFound', `${config} config does not exist`, { cause: error });
    // Who may create VMs need not read configurations: the operator does.
    if (!isSvc3Error(error, 'Forbidden')) throw error;
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

/** Waits until the VM runs; one that never will is removed, and the error says why. */
async function running(
  client: KubeClient,
  created: Vm,
  options: DeployOptions & { timeoutMs: number },
): Promise<Vm> {
  const { name = '', namespace = '', uid } = created.metadata;
  const end = performance.now() + options.timeoutMs + graceMs;
  let last = created;
  while (performance.now() < end) {
    if (options.signal.aborted)
      throw new Svc3Error('Timeout', `stopped waiting for vm ${name}; it goes on starting`);
    try {
      last = await client.get(vms, name, namespace);
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) throw notStarted(last, 'was removed before it ran', error);
      if (!isSvc3Error(error, 'ServiceUnavailable', 'Timeout', 'TooManyRequests')) throw error;
    }
    if (last.metadata.uid !== uid) throw notStarted(last, 'was replaced before it ran');
    if (vmState(last) === 'Running') return last;
    const stalled = conditionOf(last.status?.conditions, 'Stalled');
    if (stalled?.status === 'True') {
      await remove(client, last);
      throw new Svc3Error('Invalid', `vm ${name}: ${stalled.message}`);
    }
    options.progress(`${name}: ${vmMessage(last) ?? vmState(last)}`);
    await sleep(pollMs, options.signal);
  }
  await remove(client, last);
  throw notStarted(
    last,
    `did not run within ${Math.round(options.timeoutMs / 60_000)} minutes and was removed`,
  );
}

async function remove(
  client: KubeClient,
  { metadata: { name = '', namespace = '', uid } }: Vm,
): Promise<void> {
  try {
    await client.delete(vms, { name, namespace }, uid === undefined ? {} : { uid });
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
  }
}

function notStarted(vm: Vm, what: string, cause?: unknown): Svc3Error {
  const why = vm.metadata.deletionTimestamp === undefined ? vmMessage(vm) : undefined;
  return new Svc3Error(
    'Timeout',
    `vm ${vm.metadata.name ?? ''} ${what}${why === undefined ? '' : `: ${why}`}`,
    { cause },
  );
}

/** A new version of the Image that the VM runs from: the Image's source becomes the VM, with a new request. */
async function commit(client: KubeClient, namespace: string, name: string, description: string | undefined) {
  const vm = await client.get(vms, name, namespace);
  const image = vm.spec.image ?? vm.status?.effective?.image ?? '';
  if (image === '' || image.includes('/')) {
    throw new Svc3Error(
      'Invalid',
      `vm ${name} runs from ${image === '' ? 'an unknown image' : image}, which is no image of the store: use svc3 vm save`,
    );
  }
  const source = {
    vm: { name, mode: 'Commit', request: randomUUID() },
    remote: null,
    image: null,
    blank: null,
    upload: null,
  };
  const spec = { source, ...(description === undefined ? {} : { description }) };
  return imageItem(await client.patch(images, { name: image, namespace }, { type: 'merge', body: { spec } }));
}

async function explain(client: KubeClient, namespace: string, name: string) {
  const vm = await client.get(vms, name, namespace);
  const about = async (kind: string, regarding: string) => {
    const fieldSelector = `regarding.kind=${kind},regarding.name=${regarding}`;
    return (await client.list(events, { namespace, fieldSelector })).items;
  };
  const podName = vm.status?.podName;
  const found = await Promise.all([
    about('VM', name),
    ...(podName === undefined ? [] : [about('Pod', podName)]),
  ]);
  const shown = found.flat().map((event) => ({
    time:
      event.series?.lastObservedTime ??
      event.eventTime ??
      event.deprecatedLastTimestamp ??
      event.metadata.creationTimestamp ??
      '',
    type: event.type ?? 'Normal',
    reason: event.reason ?? '',
    message: event.note ?? '',
  }));
  shown.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
  return {
    item: vmItem(vm),
    conditions: vm.status?.conditions ?? [],
    warnings: vm.status?.warnings ?? [],
    events: shown,
  };
}
