import { defineRoute, type Permission } from '../call/route.ts';
import * as schemas from '../../wire/schemas.ts';
import { success } from '../call/status.ts';
import { assignNode as assignTo, setGpuPassthrough } from '../../usecases/nodelabels.ts';

const tag = 'Nodes';
const one = '/api/v1/nodes/{name}';
/** What belongs to the cluster's administrators is written with their own right to nodes. */
const permission: Permission = {
  kind: 'native',
  group: '',
  resource: 'nodes',
  verb: 'patch',
  scope: 'cluster',
  name: 'name',
};
const replies = { 200: { description: 'Done.', schema: schemas.status } };

export const assignNode = defineRoute({
  id: 'assignNode',
  tag,
  method: 'POST',
  path: `${one}/assign`,
  summary: 'Reserve a node for the VMs of one namespace, or give it back to all.',
  params: schemas.clusterNodeParams,
  query: schemas.nothing,
  body: schemas.assignBody,
  bodyKind: 'json',
  replies,
  permission,
  example: { namespace: 'team-a' },
  async handler({ params: { name }, body: { namespace }, caller }) {
    await assignTo(caller.client, name, namespace);
    const whose = namespace === undefined ? 'VMs of every namespace' : `VMs of namespace ${namespace} only`;
    return { body: success(`node ${name} takes ${whose}`) };
  },
});

/** The administrator's consent (spec: GPU passthrough rule 3). */
export const allowGpuPassthrough = defineRoute({
  id: 'allowGpuPassthrough',
  tag,
  method: 'POST',
  path: `${one}/gpupassthrough`,
  summary: 'Allow GPU passthrough on a node, or forbid it.',
  params: schemas.clusterNodeParams,
  query: schemas.nothing,
  body: schemas.gpuPassthroughBody,
  bodyKind: 'json',
  replies,
  permission,
  example: { allowed: true },
  async handler({ params: { name }, body: { allowed }, caller }) {
    await setGpuPassthrough(caller.client, name, allowed);
    const what = allowed ? 'may be used once its hardware qualifies' : 'takes no new VM with a GPU';
    return { body: success(`node ${name} ${what}`) };
  },
});
