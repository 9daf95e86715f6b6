import { describe, expect, test } from 'vitest';
import { annotations } from '../../../../src/api/meta.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { condition } from '../../controllers/image/builders.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';
import { aGateway, type Objects } from './builders.ts';

const before = '11111111-0000-4000-8000-000000000000';
const now = '22222222-0000-4000-8000-000000000000';
const notDeployed = 'No VMs with that name are currently deployed';
const noDeployments = 'No deployments exists for this VM name';

/** A VM that runs; without a node it waits for one. */
function running(name: string, node?: string, uid = `uid-of-${name}`): Vm {
  return aVm({
    metadata: { name, uid, annotations: { [annotations.virtualMachineName]: 'web' } },
    status: {
      ...(node === undefined ? {} : { node }),
      powerState: 'Running',
      effective: { ...effective, imageName: 'disk' },
      conditions: [condition('Booted', 'True', 'Booted')],
    },
  });
}

/** A VM that was deployed for node n1 and is not on it yet. */
const waiting = (name: string): Vm => {
  const vm = running(name);
  return { ...vm, spec: { ...vm.spec, nodeName: 'n1' } };
};

const deleting = 'DELETE /resources/vm/delete';
/** The rows that work on one VM, and what they need beside its name. */
const verbs: readonly [row: string, more: object, missing: object][] = [
  [deleting, {}, { reason: 'InternalError', message: notDeployed, cause: { reason: 'NotFound' } }],
  ['POST /resources/vm/exec/stop', {}, { reason: 'NotFound', message: noDeployments }],
  ['POST /resources/vm/exec/revert', {}, { reason: 'NotFound', message: noDeployments }],
  ['POST /resources/image/save', { new_name: 'saved' }, { reason: 'NotFound', message: notDeployed }],
  ['POST /resources/image/commit', {}, { reason: 'NotFound', message: notDeployed }],
];

function asking(gateway: ReturnType<typeof aGateway>, row: string, body: object) {
  const [method = '', path = ''] = row.split(' ');
  return gateway.ask(method, path, { body });
}

describe.each(verbs)('%s', (row, more, missing) => {
  test.each([
    ['another node', [running('web', 'n2')], 'VM web is on n2 and not on n1'],
    ['no node', [running('web')], 'VM web is on no node yet'],
    [
      'other nodes',
      [running('web', 'n2'), running('web-2', 'n3'), running('web-3')],
      'VM web is on n2 and not on n1; VM web-2 is on n3 and not on n1; VM web-3 is on no node yet',
    ],
  ])('of a VM on %s than the one named is not answered as nothing to do', async (_, vms, message) => {
    const gateway = aGateway({ cached: { vms } });
    const body = { ...more, svc_vm_name: 'web', svc_node_name: 'n1' };
    await expect(asking(gateway, row, body)).rejects.toMatchObject({ reason: 'NotFound', message });
    expect(gateway.writes()).toEqual([]);
  });

  test('of an id on another node is not answered as nothing to do either', async () => {
    const gateway = aGateway({ cached: { vms: [running('web', 'n2', now), running('web-2', 'n1')] } });
    const body = { ...more, svc_vm_name: now, svc_node_name: 'n1' };
    await expect(asking(gateway, row, body)).rejects.toMatchObject({
      reason: 'NotFound',
      message: 'VM web is on n2 and not on n1',
    });
  });

  test.each<[what: string, cached: Objects, live: Objects]>([
    ['of which this replica has not heard', {}, {}],
    ['that this replica knows under its name', { vms: [running('web', 'n1', before)] }, {}],
    [
      'in whose place there is another',
      { vms: [running('web', 'n1', before)] },
      { vms: [running('web', 'n1', now)] },
    ],
  ])('of an id that is gone, %s, touches nothing', async (_, cached, live) => {
    const gateway = aGateway({ cached, live });
    await expect(asking(gateway, row, { ...more, svc_vm_name: before })).rejects.toMatchObject(missing);
    // What names the UID is refused by kube-apiserver.
    const unnamed = gateway.writes().filter(({ given }) => !JSON.stringify(given ?? '').includes(before));
    expect(unnamed).toEqual([]);
    expect(gateway.writes().filter(({ verb }) => verb === 'create')).toEqual([]);
  });
});

describe('a VM that the node or kube-apiserver tells', () => {
  test.each<[what: string, vms: Vm[], moved: Objects, name: string]>([
    ['is alone of its name on the node', [running('web', 'n2'), running('web-2', 'n1')], {}, 'web-2'],
    ['waits for the node that it was deployed for', [waiting('web')], {}, 'web'],
    ['is on the node, where another waits', [waiting('web'), running('web-2', 'n1')], {}, 'web-2'],
    ['came to the node a moment ago', [running('web')], { vms: [running('web', 'n1')] }, 'web'],
    ['was made a moment ago', [], { vms: [running('web', 'n1')] }, 'web'],
  ])('%s', async (_, vms, moved, name) => {
    const gateway = aGateway({ cached: { vms }, live: { vms, ...moved } });
    const body = { svc_vm_name: 'web', svc_node_name: 'n1' };
    await expect(asking(gateway, deleting, body)).resolves.toMatchObject({
      message: 'Successfully deleted VM',
    });
    expect(gateway.writes()).toEqual([{ verb: 'delete', kind: 'vms', name, given: undefined }]);
  });

  test('is alone of its name by now', async () => {
    const [gone, stays] = [running('web', 'n1'), running('web-2', 'n2')];
    const gateway = aGateway({ cached: { vms: [gone, stays] }, live: { vms: [stays] } });
    await asking(gateway, deleting, { svc_vm_name: 'web' });
    expect(gateway.writes()).toMatchObject([{ verb: 'delete', name: 'web-2' }]);
  });

  test('is known by an id of which this replica has not heard', async () => {
    const vms = [running('web', 'n1', now), running('other', 'n1')];
    const gateway = aGateway({ cached: {}, live: { vms } });
    await asking(gateway, deleting, { svc_vm_name: now });
    expect(gateway.writes()).toEqual([{ verb: 'delete', kind: 'vms', name: 'web', given: { uid: now } }]);
  });

  test('is still refused where several of its name are on the node', async () => {
    const vms = [running('web', 'n1'), running('web-2', 'n1')];
    const body = { svc_vm_name: 'web', svc_node_name: 'n1' };
    await expect(asking(aGateway({ cached: { vms } }), deleting, body)).rejects.toMatchObject({
      reason: 'BadRequest',
      message:
        'svc_vm_name: 2 VMs are named web; use svc_node_name or one of the ids uid-of-web, uid-of-web-2',
    });
  });
});

test('a verb on an id is for that VM', async () => {
  const gateway = aGateway({ cached: { vms: [running('web', 'n1', now)] } });
  const body = { svc_vm_name: now };
  const { message } = await asking(gateway, 'POST /resources/vm/exec/stop', body);
  expect(message).toBe(`${now} has stopped on node`);
  expect(gateway.writes()).toMatchObject([{ verb: 'patch', name: 'web', given: { metadata: { uid: now } } }]);
});

test('a text that cannot be a name is looked for nowhere', async () => {
  const gateway = aGateway({});
  for (const name of ['..', 'My VM', 'a/b'])
    await expect(asking(gateway, deleting, { svc_vm_name: name })).rejects.toMatchObject({
      message: notDeployed,
    });
  expect(gateway.asked).toEqual([]);
});

describe('what this replica has not heard of yet', () => {
  const config: VmConfig = {
    metadata: storedMeta({ name: 'web', namespace: 'team' }),
    spec: { image: 'disk', cpu: 2 },
  };
  const live = { vms: [running('web', 'n1')], configs: [config] };

  test('is in vm/status', async () => {
    const status = async (of: Objects) =>
      (await aGateway({ live: of }).ask('GET', '/resources/vm/status/{vm}', { params: { vm: 'web' } }))
        .fields;
    expect(await status(live)).toMatchObject({
      virtual_machine_resources: [{ vm_deployment_status: 'Deployed' }],
    });
    expect(await status({ configs: [config] })).toMatchObject({
      virtual_machine_resources: [{ vm_deployment_status: 'Not Deployed', cpu: 2 }],
    });
    expect(await status({})).toEqual({ virtual_machine_resources: [] });
  });

  test('is in vm/configs', async () => {
    const path = '/resources/vm/configs/{vmconfig}';
    const asked = { params: { vmconfig: 'web' } };
    const { fields } = await aGateway({ live }).ask('GET', path, asked);
    expect(fields).toMatchObject({ configs: [{ svc_vm_name: 'web', vcpu_count: 2 }] });
    await expect(aGateway({}).ask('GET', path, asked)).rejects.toMatchObject({
      reason: 'NotFound',
      message: 'web config does not exist',
    });
  });

  test('is purged', async () => {
    const vms = [running('web', 'n1'), running('web-2', 'n1')];
    const gateway = aGateway({ cached: { vms: vms.slice(1) }, live: { ...live, vms } });
    await asking(gateway, 'DELETE /resources/vm/purge', { svc_vm_name: 'web' });
    const deleted = gateway.writes().map(({ verb, kind, name }) => `${verb} ${kind}/${name}`);
    expect(deleted.sort()).toEqual(['delete vmconfigs/web', 'delete vms/web', 'delete vms/web-2']);
    await expect(
      asking(aGateway({}), 'DELETE /resources/vm/purge', { svc_vm_name: 'web' }),
    ).rejects.toMatchObject({ reason: 'NotFound', message: notDeployed });
  });
});

test('a purge that names a node is refused before anything goes: it would be of all nodes', async () => {
  const vms = [running('web', 'n1'), running('web-2', 'n2')];
  const gateway = aGateway({ cached: { vms } });
  const purge = (node: string) =>
    asking(gateway, 'DELETE /resources/vm/purge', { svc_vm_name: 'web', svc_node_name: node });
  await expect(purge('n1')).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringMatching(/^svc_node_name: .* on all nodes.* vm\/delete/),
  });
  expect(gateway.writes()).toEqual([]);
  await purge('');
  expect(gateway.writes().map(({ name }) => name)).toEqual(['web', 'web-2']);
});
