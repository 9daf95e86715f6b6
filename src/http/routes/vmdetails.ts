import { vms } from '../../api/resources.ts';
import { eject } from '../../usecases/ejection.ts';
import { explain } from '../../usecases/explanation.ts';
import { defineRoute, type Permission } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import * as vmSchemas from '../../wire/vmschemas.ts';
import { success } from '../call/status.ts';

const tag = 'VMs';
const one = '/api/v1/namespaces/{namespace}/vms/{vm}';
const vmRight = (verb: 'get' | 'patch'): Permission => ({
  kind: 'native',
  group: 'svc3.dev',
  resource: 'vms',
  verb,
  scope: 'namespace',
  name: 'vm',
});

/** Everything is read with the caller's own rights: nobody sees more than kubectl shows them. */
export const explainVm = defineRoute({
  id: 'explainVm',
  tag,
  method: 'GET',
  path: `${one}/explain`,
  summary: 'Say why a VM is as it is: conditions, warnings, nodes, events.',
  params: schemas.vmParams,
  query: schemas.explanationQuery,
  body: schemas.nothing,
  bodyKind: 'none',
  replies: { 200: { description: 'The explanation.', schema: vmSchemas.explanation } },
  permission: vmRight('get'),
  handler: async ({ params: { namespace, vm }, query, caller, signal }) => ({
    body: await explain(caller.client, namespace, vm, { ...query, signal }),
  }),
});

export const ejectVm = defineRoute({
  id: 'ejectVm',
  tag,
  method: 'POST',
  path: `${one}/eject`,
  summary: "Take the install medium out of a VM's CD drive.",
  params: schemas.vmParams,
  query: schemas.nothing,
  body: vmSchemas.ejectBody,
  bodyKind: 'json',
  replies: {
    200: { description: 'It is being taken out, or there is none.', schema: schemas.status },
    409: { description: 'The VM is another than `uid` says.', schema: schemas.status },
  },
  permission: vmRight('patch'),
  async handler({ params: { namespace, vm: name }, body, caller, services }) {
    // As kube-apiserver has it: another replica may have given it a CD.
    const find = () => services.client.get(vms, name, namespace);
    return { body: success(await eject({ caller: caller.client, find }, body?.uid)) };
  },
});
