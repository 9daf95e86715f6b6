import type { Image } from '../../api/image.ts';
import { images, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { Svc3Error } from '../../errors.ts';
import { imageItem } from '../../wire/image.ts';
import { powerSettled, powerVerbs, powerWish, type PowerCommand, type PowerWish } from '../../wire/power.ts';
import { committedImage, savedImage, savingOf } from '../../wire/saving.ts';
import { vmMessage, vmState } from '../../wire/vm.ts';
import { findImage, findVm } from '../server/lookup.ts';
import { defineRoute, type Call, type ReplyOf } from '../server/route.ts';
import * as schemas from '../../wire/schemas.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { success } from '../server/status.ts';
import { writing } from '../server/upstream.ts';
import { waitSeen } from '../server/visible.ts';
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
    const { vm } = call.params;
    return settled
      ? { body: success(`VM ${vm} was ${powerVerbs[command].done}`) }
      : { status: 202, body: success(`${command} of VM ${vm} was accepted`, 202) };
  },
});

/** As long as the deletion of a VM waits for the same, unless the installation says otherwise. */
const savingWaitMs = 3_600_000;

const savingReplies = {
  200: { description: 'With `?wait=true`: its disk is in the store.', schema: schemas.imageItem },
  202: { description: 'It is being made; poll the image.', schema: schemas.imageItem },
  409: { description: 'The VM has no disk to save, or is being deleted.', schema: schemas.status },
  422: { description: 'With `?wait=true`: it failed; the message says why.', schema: schemas.status },
};

/**
 * Answers 202 with the image as it was asked for; with `?wait=true` 200 when its disk is in the store, or 202 when that takes
 * longer than this process or its limit.
 */
async function saving(
  { query, services, drain, signal }: Call<unknown, { wait?: boolean | undefined }, unknown>,
  asked: Image,
): Promise<ReplyOf<typeof savingReplies>> {
  const { name = '', namespace = '', uid } = asked.metadata;
  const { changes } = services.caches.images;
  if (query.wait !== true) {
    await waitSeen(changes, asked, signal);
    return { status: 202, body: imageItem(asked) };
  }
  let isSeen = false;
  const isOver = (image: Image | undefined): boolean => {
    isSeen ||= image?.metadata.uid === uid;
    return isSeen && savingOf(asked, image).kind !== 'underWay';
  };
  let image: Image | undefined;
  try {
    const limit = AbortSignal.any([AbortSignal.timeout(savingWaitMs), drain, signal]);
    image = await changes.until({ name, namespace }, isOver, limit);
  } catch {
    return { status: 202, body: imageItem(asked) };
  }
  const outcome = savingOf(asked, image);
  if (outcome.kind === 'failed') throw outcome.error;
  return { body: imageItem(image ?? asked) };
}

export const saveVm = defineRoute({
  id: 'saveVm',
  tag,
  method: 'POST',
  path: `${one}/save`,
  summary: "Save a VM's disk as a new image.",
  params: schemas.vmParams,
  query: schemas.waitQuery,
  body: vmSchemas.saveBody,
  bodyKind: 'json',
  replies: savingReplies,
  permission: actionPermission('save'),
  longRunning: true,
  example: { imageName: 'demo-saved' },
  async handler(call) {
    const { params, body, services } = call;
    const vm = await findVm(services, { namespace: params.namespace, name: params.vm });
    const image = savedImage(vm, body.imageName, body.description);
    const created = await writing(() => services.client.create(images, image), {
      'metadata.name': 'imageName',
    });
    return saving(call, created);
  },
});

export const commitVm = defineRoute({
  id: 'commitVm',
  tag,
  method: 'POST',
  path: `${one}/commit`,
  summary: "Make a VM's disk the new content of the image it was deployed from.",
  params: schemas.vmParams,
  query: schemas.waitQuery,
  body: vmSchemas.commitBody,
  bodyKind: 'json',
  replies: savingReplies,
  permission: actionPermission('commit'),
  longRunning: true,
  async handler(call) {
    const { params, body, services } = call;
    const { namespace } = params;
    const vm = await findVm(services, { namespace, name: params.vm });
    const { name, body: change } = committedImage(vm, body?.description);
    await findImage(services, { namespace, name });
    const patched = await writing(() =>
      services.client.patch(
        images,
        { name, namespace },
        { type: 'merge', body: change },
        { fieldManager: 'svc3-api' },
      ),
    );
    return saving(call, patched);
  },
});
