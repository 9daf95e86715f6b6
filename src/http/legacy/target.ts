import { vms as kind } from '../../api/resources.ts';
import { slimObject } from '../../api/slim.ts';
import type { Vm } from '../../api/vm.ts';
import { ifFound, isSvc3Error, Svc3Error } from '../../errors.ts';
import { listVms } from '../routes/vms.ts';
import { callFor } from '../server/invoke.ts';
import { findLiveVm } from '../call/lookup.ts';
import { byName, canBeName, virtualMachineName } from './names.ts';
import type { GatewayCall } from './row.ts';

/** Which VM a request means: `svc_vm_name` and `svc_node_name`. */
interface Target {
  /** Its UID, its name or its 2.4.x name. */
  readonly name: string;
  /** Empty is none. */
  readonly node: string | undefined;
}

/** What a request is refused with where there is no such VM. */
interface Missing {
  readonly text: string;
  readonly reason?: 'NotFound' | 'InternalError';
}

const uidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function isMeant(vm: Vm, name: string): boolean {
  return vm.metadata.uid === name || vm.metadata.name === name || virtualMachineName(vm) === name;
}

/** VMs with this UID, name or 2.4.x name as this replica knows them; asks for the right to list them first. */
async function knownVms(call: GatewayCall<unknown>, name: string): Promise<Vm[]> {
  const { namespace, services } = call;
  await callFor(call, listVms, { params: { namespace } });
  return byName(services.caches.vms.objects.list(namespace).filter((vm) => isMeant(vm, name)));
}

/** The same as kube-apiserver has them; of other VMs nothing is kept. */
async function listedVms({ namespace, caller, signal }: GatewayCall<unknown>, name: string): Promise<Vm[]> {
  // As the caller, who takes turns with others at that.
  const { items } = await caller.client.list(kind, {
    namespace,
    signal,
    transform: (vm) => (isMeant(vm, name) ? slimObject(vm) : nothingBut(vm)),
  });
  return byName(items.filter((vm) => isMeant(vm, name)));
}

/** Lists are of all VMs of a namespace. */
function nothingBut({ metadata: { name, namespace, uid, resourceVersion } }: Vm): Vm {
  return { metadata: { name, namespace, uid, resourceVersion }, spec: { powerState: 'Running' } };
}

/** What kube-apiserver has where this replica has heard of none: one VM of the name, or whichever has the UID. */
async function unknownVms(call: GatewayCall<unknown>, name: string): Promise<Vm[]> {
  if (uidPattern.test(name)) return listedVms(call, name);
  if (!canBeName(name)) return [];
  const vm = await ifFound(findLiveVm(call.services, { namespace: call.namespace, name }));
  return vm === undefined ? [] : [vm];
}

/** VMs of the namespace with this UID, name or 2.4.x name; asks for the right to list them first. */
export async function vmsNamed(call: GatewayCall<unknown>, name: string): Promise<Vm[]> {
  const known = await knownVms(call, name);
  return known.length > 0 ? known : unknownVms(call, name);
}

/** The same, with all of which this replica has not heard yet, and with those that it has not heard the end of. */
export async function allVmsNamed(call: GatewayCall<unknown>, name: string): Promise<Vm[]> {
  const all = [...(await knownVms(call, name)), ...(await listedVms(call, name))];
  return byName([...new Map(all.map((vm) => [vm.metadata.name, vm])).values()]);
}

/** Those that the name means: a UID means one, whatever is named like it. */
function exactly(vms: readonly Vm[], name: string): readonly Vm[] {
  const exact = vms.filter(({ metadata }) => metadata.uid === name);
  return exact.length > 0 ? exact : vms;
}

/** Those on the node; where none is, those that were deployed for it and wait for room there. */
function onNode(vms: readonly Vm[], node: string | undefined): readonly Vm[] {
  if (node === undefined || node === '') return vms;
  const there = vms.filter(({ status }) => status?.node === node);
  if (there.length > 0) return there;
  return vms.filter(({ status, spec }) => status?.node === undefined && spec.nodeName === node);
}

/**
 * The one VM a request means; several of one name are an error that `svc_node_name` or the id resolves.
 *
 * @throws Svc3Error what `missing` says; NotFound where it is on another node, since clients take the text of a missing one for nothing to do
 */
export async function theVm(call: GatewayCall<unknown>, target: Target, missing: Missing): Promise<Vm> {
  const { name, node } = target;
  const known = await knownVms(call, name);
  const [vm, another] = onNode(exactly(known, name), node);
  if (vm !== undefined && another === undefined) return vm;
  const live = known.length === 0 ? await unknownVms(call, name) : await listedVms(call, name);
  return theOnly(exactly(live, name), target, missing);
}

function theOnly(vms: readonly Vm[], { name, node }: Target, { text, reason = 'NotFound' }: Missing): Vm {
  if (vms.length === 0) {
    const missing = new Svc3Error('NotFound', text);
    throw reason === 'NotFound' ? missing : new Svc3Error(reason, text, { cause: missing });
  }
  const there = onNode(vms, node);
  const [vm, another] = there;
  if (vm === undefined)
    throw new Svc3Error('NotFound', vms.map((one) => elsewhere(one, node ?? '')).join('; '));
  if (another !== undefined) throw ambiguous(name, there);
  return vm;
}

function elsewhere({ metadata, status }: Vm, node: string): string {
  const where = status?.node === undefined ? 'on no node yet' : `on ${status.node} and not on ${node}`;
  return `VM ${metadata.name} is ${where}`;
}

function ambiguous(name: string, vms: readonly Vm[]): Svc3Error {
  const ids = vms.map(({ metadata }) => metadata.uid).join(', ');
  return new Svc3Error(
    'BadRequest',
    `svc_vm_name: ${vms.length} VMs are named ${name}; use svc_node_name or one of the ids ${ids}`,
    { details: { causes: [{ field: 'svc_vm_name', message: 'is ambiguous' }] } },
  );
}

/**
 * Does something with a VM. Where the client named its UID, another one that has its name by now is not it.
 *
 * @param named - what the client named it by
 * @param run - gets the UID where that was it
 * @throws Svc3Error NotFound with the text where the VM is gone
 */
export async function withVm<T>(
  call: GatewayCall<unknown>,
  vm: Vm,
  { named, text }: { readonly named: string; readonly text: string },
  run: (uid?: string) => Promise<T>,
): Promise<T> {
  if (named !== vm.metadata.uid) return run();
  try {
    return await run(named);
  } catch (error) {
    const isOfVm = isSvc3Error(error, 'NotFound', 'Conflict') && error.details.kind !== 'images';
    if (isOfVm && (await isGone(call, vm))) throw new Svc3Error('NotFound', text, { cause: error });
    throw error;
  }
}

async function isGone({ namespace, services }: GatewayCall<unknown>, { metadata }: Vm): Promise<boolean> {
  const now = await ifFound(findLiveVm(services, { namespace, name: metadata.name }));
  return now?.metadata.uid !== metadata.uid;
}
