import type { Image } from '../../api/image.ts';
import { vms } from '../../api/resources.ts';
import { textOfVerb } from '../../usecases/outcome.ts';
import { execute, type PowerOptions } from '../../usecases/power.ts';
import { commit, save, untilSaved } from '../../usecases/saving.ts';
import { imageItem } from '../../wire/image.ts';
import { requireMeant } from '../../wire/meant.ts';
import { powerRequest } from '../../wire/power.ts';
import { powerVerbs, type PowerCommand } from '../../wire/powercommands.ts';
import * as schemas from '../../wire/schemas.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { findLiveVm, findVmFor } from '../call/lookup.ts';
import { defineRoute, type Call, type ReplyOf } from '../call/route.ts';
import type { Services } from '../call/services.ts';
import { success } from '../call/status.ts';
import { waitSeen } from '../call/visible.ts';
import { waiterOf } from '../call/waiter.ts';
import { actionPermission } from './vms.ts';

const tag = 'VMs';
const one = '/api/v1/namespaces/{namespace}/vms/{vm}';

/**
 * The use case on this call.
 *
 * @param uid - of the VM that is meant: another one of its name is left alone
 * @param noteWritten - called once it is written
 * @returns whether it has been carried out; false: it goes on
 * @throws Svc3Error NotFound; Conflict where the command does not fit, or it is another VM than `uid` says
 */
export async function exec(
  call: Call<
    { namespace: string; vm: string },
    { wait?: boolean | undefined },
    { readonly command: PowerCommand }
  >,
  uid?: string,
  noteWritten?: PowerOptions['noteWritten'],
): Promise<boolean> {
  const { params, services, query } = call;
  const { command } = call.body;
  const key = { namespace: params.namespace, name: params.vm };
  const now = async () => {
    const vm = await findLiveVm(services, key);
    requireMeant(vms, vm, uid);
    return vm;
  };
  const environment = { writer: services.client, wait: waiterOf(call), now };
  const found =
    uid === undefined ? await findVmFor(services, key, (vm) => powerRequest(vm, command)) : await now();
  const noting = noteWritten === undefined ? {} : { noteWritten };
  return execute(environment, found, command, { wait: query.wait ?? true, ...noting });
}

export const execVm = defineRoute({
  id: 'execVm',
  tag,
  method: 'POST',
  path: `${one}/exec`,
  summary: 'Start, stop, restart, suspend, resume or revert a VM.',
  params: schemas.vmParams,
  query: schemas.waitQuery,
  body: vmSchemas.execBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'Done.', schema: schemas.status },
    202: { description: 'It will be done.', schema: schemas.acceptedStatus },
    409: {
      description:
        "The command does not fit the VM's state, has failed, or another one or a deletion came in between; or the VM is another than `uid` says.",
      schema: schemas.status,
    },
  },
  permission: actionPermission('exec'),
  longRunning: true,
  example: { command: 'stop' },
  async handler(call) {
    const { vm } = call.params;
    const { command, uid } = call.body;
    let request = '';
    const isDone = await exec(call, uid, (...written) => void (request = textOfVerb(...written)));
    return isDone
      ? { body: success(`VM ${vm} was ${powerVerbs[command].done}`) }
      : { status: 202, body: { ...success(`${command} of VM ${vm} was accepted`, 202), request } };
  },
});

const savingReplies = {
  200: { description: 'With `?wait=true`: its disk is in the store.', schema: schemas.imageItem },
  202: { description: 'It is being made; poll the image.', schema: schemas.imageItem },
  409: {
    description: 'The VM has no disk to save, is being deleted, or is another than `uid` says.',
    schema: schemas.status,
  },
  422: { description: 'With `?wait=true`: it failed; the message says why.', schema: schemas.status },
};

/**
 * Answers 202 with the image as it was asked for; with `?wait=true` 200 when its disk is in the store, or 202 when that takes
 * longer than this process or its limit.
 */
async function saving(
  call: Call<unknown, { wait?: boolean | undefined }, unknown>,
  asked: Image,
): Promise<ReplyOf<typeof savingReplies>> {
  if (call.query.wait !== true) {
    await waitSeen(call.services.caches.images.changes, asked, call.signal);
    return { status: 202, body: imageItem(asked) };
  }
  const saved = await untilSaved(waiterOf(call), asked);
  return saved === undefined ? { status: 202, body: imageItem(asked) } : { body: imageItem(saved) };
}

const writerOf = ({ client }: Services) => ({ writer: client });

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
    const key = { namespace: params.namespace, name: params.vm };
    const vm = await findLiveVm(services, key);
    return saving(call, await save(writerOf(services), vm, body));
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
    const key = { namespace: params.namespace, name: params.vm };
    const vm = await findLiveVm(services, key);
    return saving(call, await commit(writerOf(services), vm, body));
  },
});
