import { group } from '../../api/meta.ts';
import * as schemas from '../../wire/schemas.ts';
import { vmState } from '../../wire/vm.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { Svc3Error } from '../../errors.ts';
import { findVm } from '../call/lookup.ts';
import { defineRoute } from '../call/route.ts';

export const getVmUsage = defineRoute({
  id: 'getVmUsage',
  tag: 'VMs',
  method: 'GET',
  path: '/api/v1/namespaces/{namespace}/vms/{vm}/usage',
  summary: 'Show what a VM uses now: CPU, memory, disks and network. Two replies make a rate.',
  params: schemas.vmParams,
  query: schemas.nothing,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: {
    200: { description: 'The figures, at most a second old.', schema: vmSchemas.vmUsage },
    409: { description: 'The guest does not run.', schema: schemas.status },
    501: { description: 'The VM has a runner of an earlier version.', schema: schemas.status },
  },
  permission: { kind: 'checked', group, resource: 'vms', verb: 'get', scope: 'namespace', name: 'vm' },
  async handler({ params: { namespace, vm: name }, services }) {
    const vm = await findVm(services, { namespace, name });
    const state = vmState(vm);
    if (state !== 'Running')
      throw new Svc3Error(
        'Conflict',
        `VM ${name} is ${state}, figures of what it uses need it to be Running`,
      );
    return { body: await services.usages.of(vm) };
  },
});
