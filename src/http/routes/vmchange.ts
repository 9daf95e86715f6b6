import { group } from '../../api/meta.ts';
import { changeVm, type ChangeEnvironment } from '../../usecases/change.ts';
import { textOfChange } from '../../usecases/outcome.ts';
import * as schemas from '../../wire/schemas.ts';
import { vmItem } from '../../wire/vm.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { findLiveVm, findVm } from '../call/lookup.ts';
import { defineRoute } from '../call/route.ts';
import { waitSeen } from '../call/visible.ts';
import { waiterOf } from '../call/waiter.ts';

export const patchVm = defineRoute({
  id: 'patchVm',
  tag: 'VMs',
  method: 'PATCH',
  path: '/api/v1/namespaces/{namespace}/vms/{vm}',
  summary: 'Change settings of a VM; restartRequired of the reply says what waits for its next start.',
  params: schemas.vmParams,
  query: schemas.changeQuery,
  body: vmSchemas.vmChangeBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'The VM, after the operator has looked at the change.', schema: vmSchemas.vmItem },
    202: { description: 'The VM; the operator has not looked at the change yet.', schema: vmSchemas.vmItem },
    409: { description: 'It is being deleted, or is another than `uid` says.', schema: schemas.status },
  },
  permission: { kind: 'native', group, resource: 'vms', verb: 'patch', scope: 'namespace', name: 'vm' },
  longRunning: true,
  example: { cpu: 4, memory: 8 },
  async handler(call) {
    const { params, body, query, caller, services, signal } = call;
    const key = { namespace: params.namespace, name: params.vm };
    const { uid } = query;
    const { gpuPassthroughEnabled, hostPortsAllowed, defaultNamespace } = services.settings;
    const environment: ChangeEnvironment = {
      caller: caller.client,
      // The cache may still have the one before.
      find: () => (uid === undefined ? findVm : findLiveVm)(services, key),
      settings: () => Promise.resolve({ gpuPassthroughEnabled, hostPortsAllowed, defaultNamespace }),
      wait: waiterOf(call),
    };
    const options = { wait: query.wait ?? true, uid, warn: (text: string) => call.warn(text) };
    const { vm, isSeen, written } = await changeVm(environment, key, body, options);
    if (isSeen) return { body: vmItem(vm) };
    await waitSeen(services.caches.vms.changes, vm, signal);
    return { status: 202, body: { ...vmItem(vm), request: textOfChange(vm.metadata.uid, written) } };
  },
});
