import { randomUUID } from 'node:crypto';
import type { Image } from '../../api/image.ts';
import { images, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { Svc3Error } from '../../errors.ts';
import { imageItem } from '../../items/image.ts';
import { powerSettled, powerVerbs, powerWish, type PowerCommand, type PowerWish } from '../../items/power.ts';
import { hasDisk, vmMessage, vmState } from '../../items/vm.ts';
import { findImage, findVm } from '../lookup.ts';
import { defineRoute, type Call } from '../route.ts';
import * as schemas from '../schemas.ts';
import * as vmSchemas from '../vmschemas.ts';
import { success } from '../status.ts';
import { writing } from '../upstream.ts';
import { actionPermission } from './vms.ts';

const tag = 'VMs';
const one = '/api/v1/namespaces/{namespace}/vms/{vm}';

const verbWaitMs = 120_000;

export interface Executed {
  readonly vm: Vm;
  readonly settled: boolean;
}

/** Writes the wish into the VM's spec as the api and waits until the operator has carried it out. */
export async function execute(
  call: Call<{ namespace: string; vm: string }, unknown, { command: PowerCommand }>,
  wait: boolean,
): Promise<Executed> {
  const { services, params, body } = call;
  const vm = await findVm(services, { namespace: params.namespace, name: params.vm });
  const wish = powerWish(vm, body.command);
  const patched = await services.client.patch(
    vms,
    { name: params.vm, namespace: params.namespace },
    { type: 'merge', body: { metadata: { uid: vm.metadata.uid }, spec: wish } },
    { fieldManager: 'svc3-api' },
  );
  if (!wait) return { vm: patched, settled: false };
  return await carriedOut(call, patched, wish);
}

async function carriedOut(
  call: Call<{ namespace: string; vm: string }, unknown, unknown>,
  patched: Vm,
  wish: PowerWish,
): Promise<Executed> {
  const { name = '', namespace = '', uid, generation = 0 } = patched.metadata;
  const done = (vm: Vm | undefined): boolean => {
    if (vm === undefined || vm.metadata.uid !== uid) return true;
    return powerSettled(vm, wish, generation);
  };
  let vm: Vm | undefined;
  try {
    const signal = AbortSignal.any([AbortSignal.timeout(verbWaitMs), call.drain, call.signal]);
    vm = await call.services.caches.vms.changes.until({ name, namespace }, done, signal);
  } catch {
    return { vm: patched, settled: false };
  }
  if (vm === undefined || vm.metadata.uid !== uid) throw new Svc3Error('NotFound', `vms "${name}" not found`);
  if (vmState(vm) === 'Failed')
    throw new Svc3Error('Conflict', `VM ${name} is Failed: ${vmMessage(vm) ?? 'see its conditions'}`);
  return { vm, settled: true };
}

export const execVm = defineRoute({
  id: 'execVm',
  tag,
  method: 'POST',
  path: `${one}/exec`,
  summary: 'Start, stop, suspend, resume or revert a VM.',
  params: schemas.vmParams,
  query: schemas.waitQuery,
  body: vmSchemas.execBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'Done.', schema: schemas.status },
    202: { description: 'It will be done.', schema: schemas.status },
    409: { description: "The command does not fit the VM's state.", schema: schemas.status },
  },
  permission: actionPermission('exec'),
  longRunning: true,
  example: { command: 'stop' },
  async handler(call) {
    const { settled } = await execute(call, call.query.wait ?? true);
    const { command } = call.body;
    const message = settled
      ? `VM ${call.params.vm} was ${powerVerbs[command].done}`
      : `${command} of VM ${call.params.vm} was accepted`;
    return { status: settled ? 200 : 202, body: success(message, settled ? 200 : 202) };
  },
});

function requireDisk(vm: Vm, what: string): void {
  if (hasDisk(vm)) return;
  throw new Svc3Error(
    'Conflict',
    `VM ${vm.metadata.name} is ${vmState(vm)}, ${what} needs a VM that has booted`,
    {
      details: { group: 'svc3.dev', kind: 'vms', name: vm.metadata.name ?? '' },
    },
  );
}

export const saveVm = defineRoute({
  id: 'saveVm',
  tag,
  method: 'POST',
  path: `${one}/save`,
  summary: "Save a VM's disk as a new image.",
  params: schemas.vmParams,
  query: schemas.nothing,
  body: vmSchemas.saveBody,
  bodyKind: 'json',
  replies: { 202: { description: 'The image is being made; poll it.', schema: schemas.imageItem } },
  permission: actionPermission('save'),
  example: { imageName: 'demo-saved' },
  async handler({ params, body, services }) {
    const vm = await findVm(services, { namespace: params.namespace, name: params.vm });
    requireDisk(vm, 'save');
    const image: Image = {
      metadata: { name: body.imageName, namespace: params.namespace },
      spec: {
        ...(body.description === undefined ? {} : { description: body.description }),
        source: { vm: { name: params.vm, mode: 'Save' } },
      },
    };
    return {
      status: 202,
      body: imageItem(
        await writing(() => services.client.create(images, image), { 'metadata.name': 'imageName' }),
      ),
    };
  },
});

export const commitVm = defineRoute({
  id: 'commitVm',
  tag,
  method: 'POST',
  path: `${one}/commit`,
  summary: "Make a VM's disk the new content of the image it was deployed from.",
  params: schemas.vmParams,
  query: schemas.nothing,
  body: vmSchemas.commitBody,
  bodyKind: 'json',
  replies: { 202: { description: 'The image is being changed; poll it.', schema: schemas.imageItem } },
  permission: actionPermission('commit'),
  async handler({ params, body, services }) {
    const vm = await findVm(services, { namespace: params.namespace, name: params.vm });
    requireDisk(vm, 'commit');
    const config =
      vm.spec.config === undefined
        ? undefined
        : services.caches.vmConfigs.objects.get(vm.spec.config, params.namespace);
    const name = vm.spec.image ?? config?.spec.image;
    if (name === undefined || name.includes('/')) {
      throw new Svc3Error(
        'Conflict',
        `VM ${params.vm} runs from an OCI reference and not from an image of this namespace; use save`,
      );
    }
    await findImage(services, { namespace: params.namespace, name });
    const patch = {
      spec: {
        ...(body?.description === undefined ? {} : { description: body.description }),
        source: {
          remote: null,
          image: null,
          blank: null,
          upload: null,
          vm: { name: params.vm, mode: 'Commit', request: randomUUID() },
        },
      },
    };
    const image = await writing(() =>
      services.client.patch(
        images,
        { name, namespace: params.namespace },
        { type: 'merge', body: patch },
        { fieldManager: 'svc3-api' },
      ),
    );
    return { status: 202, body: imageItem(image) };
  },
});
