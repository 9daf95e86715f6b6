/** Labels of a VM reach its pod, so that Services and NetworkPolicies can select it; those that svc3 goes by stay svc3's. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { messageOf } from '../../src/errors.ts';
import type { KubeObject, Resource } from '../../src/api/object.ts';
import { pods, vms } from '../../src/api/resources.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { withFaults, type Write } from '../support/faultclient.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let writes: Write[];

async function startOperator(): Promise<void> {
  const counted = withFaults(world.client, () => 'none');
  writes = counted.writes;
  operator = await startVmOperator(counted.client);
}

beforeAll(async () => {
  world = await vmWorld();
  space = await world.namespace('labels');
  await world.kubelet.addNode({ name: 'n1' });
  await startOperator();
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

function admission(plural: string, kind: string): Resource<KubeObject> {
  return { group: 'admissionregistration.k8s.io', version: 'v1', plural, kind, namespaced: false };
}
const policies = admission('validatingadmissionpolicies', 'ValidatingAdmissionPolicy');
const bindings = admission('validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding');

const ours = {
  'svc3.dev/vm': 'web',
  'app.kubernetes.io/name': 'svc3-vm',
  'app.kubernetes.io/instance': 'web',
  'app.kubernetes.io/component': 'vm',
  'app.kubernetes.io/part-of': 'svc3',
  'app.kubernetes.io/managed-by': 'svc3',
};
const patch = (labels: Record<string, string | null>) =>
  world.client.patch(
    vms,
    { name: 'web', namespace: space.name },
    { type: 'merge', body: { metadata: { labels } } },
  );
const labelsOfPod = async () => (await space.pod('web'))?.metadata.labels;

test("labels of a VM are on its pod from the beginning, but for those that are svc3's", async () => {
  await world.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: {
      name: 'web',
      namespace: space.name,
      labels: {
        tier: 'front',
        'svc3.dev/vm': 'other',
        'tag.svc3.dev/fast': 'true',
        'app.kubernetes.io/managed-by': 'somebody',
      },
    },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi', powerState: 'Running' },
  });
  await space.untilReady('web');
  expect(await labelsOfPod()).toEqual({ ...ours, tier: 'front' });
});

test("they follow those of the VM while it runs, and others' labels of the pod stay", async () => {
  const key = { name: 'svc3-vm-web', namespace: space.name };
  await world.client.patch(pods, key, {
    type: 'merge',
    body: { metadata: { labels: { mesh: 'injected' } } },
  });
  await patch({ tier: null, role: 'db', 'app.kubernetes.io/name': 'postgres' });
  await expect.poll(labelsOfPod, slow).toEqual({ ...ours, mesh: 'injected', role: 'db' });
  await patch({ role: null });
  await expect.poll(labelsOfPod, slow).toEqual({ ...ours, mesh: 'injected' });
});

test('nothing is written where nothing has changed, also after a restart of the operator', async () => {
  await patch({ role: 'cache' });
  await expect.poll(labelsOfPod, slow).toEqual({ ...ours, mesh: 'injected', role: 'cache' });
  await operator.stop();
  await startOperator();
  // A VM made now has been through the same queue behind it.
  await space.deploy('later');
  await space.untilReady('later');
  expect(writes.filter(({ name }) => name === 'svc3-vm-web' || name === 'web')).toEqual([]);
});

test('one that a policy refuses pods is told, and comes to the pod once it is allowed', async () => {
  const match = {
    resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['pods'] }],
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': space.name } },
  };
  const validations = [
    { expression: "object.metadata.labels[?'team'].orValue('') != 'x'", message: 'not x' },
  ];
  const name = 'no-team';
  const spec = { failurePolicy: 'Fail', matchConstraints: match, validations };
  await world.client.create(policies, { metadata: { name }, spec } as never);
  const binding = { policyName: name, validationActions: ['Deny'] };
  await world.client.create(bindings, { metadata: { name }, spec: binding } as never);
  const key = { name: 'svc3-vm-web', namespace: space.name };
  const body = { metadata: { labels: { team: 'x' } } };
  const tried = () => world.client.patch(pods, key, { type: 'merge', body }, { dryRun: true });
  await expect.poll(() => tried().then(() => 'allowed', messageOf), slow).toMatch('not x');

  await patch({ team: 'x' });
  const warnings = async () => (await space.vm('web')).status?.warnings ?? [];
  await expect
    .poll(warnings, slow)
    .toEqual([expect.stringMatching(/^metadata.labels: pod svc3-vm-web .*not x/)]);
  await expect.poll(() => space.events('web'), slow).toContain('SpecWarning');
  expect(await space.condition('web', 'Ready')).toMatchObject({ status: 'True' });
  await patch({ team: 'y' });
  await expect.poll(labelsOfPod, slow).toMatchObject({ team: 'y' });
  await expect.poll(warnings, slow).toEqual([]);
  for (const kind of [bindings, policies]) await world.client.delete(kind, { name });
});
