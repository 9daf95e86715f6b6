import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { namespaces, nodes, persistentVolumeClaims, pods, vms } from '../../../src/api/resources.ts';
import { storageClasses } from '../../support/resources.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { messageOf } from '../../../src/errors.ts';
import { buildWorkerPod } from '../../../src/controllers/image/workerpod.ts';
import { bindClaim } from '../../support/claims.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { blocksOf } from '../../support/page.ts';
import { slow, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1', allocatable: { cpu: '2' } });
  operator = await startVmOperator(world.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

function resource(group: string, plural: string, kind: string, namespaced: boolean): Resource<KubeObject> {
  return { group, version: 'v1', plural, kind, namespaced };
}

const quotas = resource('', 'resourcequotas', 'ResourceQuota', true);
const limitRanges = resource('', 'limitranges', 'LimitRange', true);
const policies = resource(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicies',
  'ValidatingAdmissionPolicy',
  false,
);
const bindings = resource(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicybindings',
  'ValidatingAdmissionPolicyBinding',
  false,
);
const priorityClasses = resource('scheduling.k8s.io', 'priorityclasses', 'PriorityClass', false);
const webhooks = resource(
  'admissionregistration.k8s.io',
  'validatingwebhookconfigurations',
  'ValidatingWebhookConfiguration',
  false,
);

async function make(
  kind: Resource<KubeObject>,
  name: string,
  content: object,
  namespace?: string,
): Promise<void> {
  await world.client.create(kind, {
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
    ...content,
  });
}

describe('a pod that kube-apiserver refuses is quoted, and made once it is allowed', () => {
  test('Pod Security: an SSH port is a host port', async () => {
    const space = await world.namespace('strict', { 'pod-security.kubernetes.io/enforce': 'restricted' });
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    const { message } = await space.condition('vm', 'Scheduled');
    expect(message).toMatch(
      'pods "svc3-vm-vm" is forbidden: violates PodSecurity "restricted:latest": hostPort',
    );
    // Nothing but the host ports: the rest of the pod is restricted.
    expect(message).not.toMatch(/runAsNonRoot|seccomp|capabilities|allowPrivilegeEscalation|volume/);
    await expect.poll(() => space.events('vm'), slow).toContain('PodRefused');
    const body = { metadata: { labels: { 'pod-security.kubernetes.io/enforce': null } } };
    await world.client.patch(namespaces, { name: 'strict' }, { type: 'merge', body });
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('ResourceQuota', async () => {
    const space = await world.namespace('quota');
    await make(quotas, 'none', { spec: { hard: { pods: '0' } } }, 'quota');
    await expect.poll(() => space.tryPod(), slow).toMatch('exceeded quota');
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    expect((await space.condition('vm', 'Scheduled')).message).toMatch(
      'pods "svc3-vm-vm" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0',
    );
    await world.client.delete(quotas, { name: 'none', namespace: 'quota' });
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('a ResourceQuota that the claim of a VM uses up keeps no other pod from it', async () => {
    const space = await world.namespace('claims');
    await make(quotas, 'one', { spec: { hard: { persistentvolumeclaims: '1' } } }, 'claims');
    await make(storageClasses, 'bound', { provisioner: 'example.com/none', volumeBindingMode: 'Immediate' });
    await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi', storageClassName: 'bound' } });
    await vi.waitFor(() => world.client.get(persistentVolumeClaims, 'svc3-vm-vm', 'claims'), slow);
    await bindClaim(world.client, 'claims', 'svc3-vm-vm');
    await space.untilReady('vm');
    const another = {
      metadata: { name: 'another', namespace: 'claims' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    };
    const tryClaim = () =>
      world.client.create(persistentVolumeClaims, another, { dryRun: true }).then(() => 'allowed', messageOf);
    await expect.poll(tryClaim, slow).toMatch('exceeded quota: one');
    const before = await space.pod('vm');
    await world.client.delete(pods, { name: 'svc3-vm-vm', namespace: 'claims' });
    await space.untilReplaced('vm', before);
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('LimitRange', async () => {
    const space = await world.namespace('limits');
    await make(
      limitRanges,
      'small',
      { spec: { limits: [{ type: 'Container', max: { memory: '64Mi' } }] } },
      'limits',
    );
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    expect((await space.condition('vm', 'Scheduled')).message).toMatch(
      'pods "svc3-vm-vm" is forbidden: maximum memory usage per Container is 64Mi, but limit is',
    );
    await world.client.delete(limitRanges, { name: 'small', namespace: 'limits' });
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('a PriorityClass that is not there', async () => {
    const space = await world.namespace('priority');
    await space.deploy('vm', { priorityClassName: 'batch' });
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    expect((await space.condition('vm', 'Scheduled')).message).toMatch(
      'pods "svc3-vm-vm" is forbidden: no PriorityClass with name batch was found',
    );
    await make(priorityClasses, 'batch', { value: -7 });
    await space.untilReady('vm');
    expect((await space.pod('vm'))?.spec).toMatchObject({ priorityClassName: 'batch', priority: -7 });
    await space.remove('vm');
  });

  test('an admission policy', async () => {
    const space = await world.namespace('policy');
    const match = {
      resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'policy' } },
    };
    const validations = [{ expression: 'false', message: 'no VMs on Sundays' }];
    await make(policies, 'sunday', { spec: { matchConstraints: match, validations } });
    await make(bindings, 'sunday', { spec: { policyName: 'sunday', validationActions: ['Deny'] } });
    await expect.poll(() => space.tryPod(), slow).toMatch('no VMs on Sundays');
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    expect((await space.condition('vm', 'Scheduled')).message).toMatch('no VMs on Sundays');
    await world.client.delete(bindings, { name: 'sunday' });
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('a webhook that does not answer', async () => {
    const space = await world.namespace('hook');
    const webhook = {
      name: 'closed.example.com',
      clientConfig: { url: 'https://127.0.0.1:1/' },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'hook' } },
      failurePolicy: 'Fail',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    };
    await make(webhooks, 'closed', { webhooks: [webhook] });
    await expect.poll(() => space.tryPod(), slow).toMatch('failed calling webhook');
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'PodRefused' });
    expect((await space.condition('vm', 'Scheduled')).message).toMatch(
      'failed calling webhook "closed.example.com"',
    );
    await world.client.delete(webhooks, { name: 'closed' });
    await space.untilReady('vm');
    await space.remove('vm');
  });
});

test('the LimitRange of docs/install.md bounds what an image worker writes, and reserves little for it', async () => {
  const space = await world.namespace('room');
  const block = (await blocksOf('docs/install.md')).find(({ text }) => text.includes('kind: LimitRange'));
  const [, manifests = ''] = /<<'END'\n(.*?)^END$/ms.exec(block?.text ?? '') ?? [];
  const [limitRange] = parseAllDocuments(manifests).map((document) => document.toJS());
  expect(limitRange).toMatchObject({ kind: 'LimitRange' });
  await make(limitRanges, 'ephemeral-storage', { spec: limitRange.spec }, 'room');
  const { resources } = buildWorkerPod({
    disk: { metadata: { name: 'saved', namespace: space.name, uid: 'image-uid' } },
    kind: 'Image',
    id: 'a'.repeat(32),
    spec: { source: { type: 'upload', reference: 'r.example.com/saved' } },
    settings: { scratchBytes: 2 ** 30, workerImage: 'r.example.com/svc3' },
  } as never).spec.containers[0]!;
  const containers = [{ name: 'worker', image: 'b', resources: resources ?? {} }];
  const worker = { metadata: { name: 'worker', namespace: space.name }, spec: { containers } };
  const admitted = async () =>
    (await world.client.create(pods, worker, { dryRun: true })).spec.containers[0]?.resources;
  await expect
    .poll(admitted, slow)
    .toMatchObject({ limits: { 'ephemeral-storage': '40Gi' }, requests: { 'ephemeral-storage': '256Mi' } });
});

describe('a pod that never runs where it was put', () => {
  test('one that the kubelet rejects is quoted and put elsewhere', async () => {
    const space = await world.namespace('rejected');
    world.kubelet.behave((pod) =>
      pod.spec.nodeName === 'n1'
        ? {
            kind: 'reject',
            reason: 'UnexpectedAdmissionError',
            message: 'Allocate failed due to no healthy devices present',
          }
        : { kind: 'run' },
    );
    await space.deploy('vm');
    const quoted = 'UnexpectedAdmissionError: Allocate failed due to no healthy devices present';
    await expect.poll(() => space.events('vm'), slow).toContain('RejectedByNode');
    const seen = await space.condition('vm', 'Scheduled');
    if (seen.status === 'False') expect(seen).toMatchObject({ reason: 'RejectedByNode', message: quoted });
    await world.kubelet.addNode({ name: 'n2', allocatable: { cpu: '2' } });
    await space.untilReady('vm');
    expect((await space.vm('vm')).status?.node).toBe('n2');
    await space.remove('vm');
    world.kubelet.behave(() => ({ kind: 'run' }));
    await world.kubelet.removeNode('n2');
  });

  test('one that kube-scheduler refuses is taken back and placed anew', async () => {
    const space = await world.namespace('slower');
    // kube-scheduler knows of a pod with this anti-affinity, placement does not: somebody else was there first.
    const term = {
      labelSelector: { matchLabels: { 'svc3.dev/vm': 'vm' } },
      topologyKey: 'kubernetes.io/hostname',
    };
    await world.client.create(pods, {
      metadata: { name: 'hermit', namespace: 'slower' },
      spec: {
        nodeName: 'n1',
        containers: [{ name: 'a', image: 'b' }],
        affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } },
      },
    });
    await space.deploy('vm');
    const message = expect.stringMatching(
      /^0\/1 nodes are available: 1 node\(s\) didn't satisfy existing pods anti-affinity rules/,
    );
    await space.until('vm', 'Scheduled', { status: 'False', reason: 'Unschedulable', message });
    await world.kubelet.addNode({ name: 'n3', allocatable: { cpu: '2' } });
    await space.untilReady('vm');
    expect((await space.vm('vm')).status?.node).toBe('n3');
    await space.remove('vm');
    await world.client.delete(pods, { name: 'hermit', namespace: 'slower' }, { gracePeriodSeconds: 0 });
    await world.kubelet.removeNode('n3');
  });

  test("somebody else's pod of the VM's pod name is never touched", async () => {
    const space = await world.namespace('taken');
    const pod = {
      metadata: { name: 'svc3-vm-vm', namespace: 'taken' },
      spec: { containers: [{ name: 'a', image: 'b' }] },
    };
    const foreign = await world.client.create(pods, pod);
    await space.deploy('vm');
    await space.until('vm', 'Scheduled', {
      status: 'False',
      reason: 'PodConflict',
      message: 'pod svc3-vm-vm exists and does not belong to this VM',
    });
    expect((await space.pod('vm'))?.metadata.uid).toBe(foreign.metadata.uid);
    await world.client.delete(pods, { name: 'svc3-vm-vm', namespace: 'taken' }, { gracePeriodSeconds: 0 });
    await space.untilReady('vm');
    await space.remove('vm');
  });

  test('a node that was full takes the VM when it has room, the oldest first', async () => {
    const space = await world.namespace('queue');
    await space.deploy('holder', { cpu: 2 });
    await space.untilReady('holder');
    await space.deploy('older', { cpu: 2 });
    await space.until('older', 'Scheduled', { message: '0/1 nodes are available: 1 Insufficient cpu.' });
    // Creation times have whole seconds, and the older one is to be older.
    const created = Date.parse((await space.vm('older')).metadata.creationTimestamp ?? '');
    await expect.poll(() => Date.now() - created, slow).toBeGreaterThan(1_100);
    await space.deploy('younger', { cpu: 2 });
    await space.until('younger', 'Scheduled', { reason: 'Unschedulable' });
    await space.remove('holder');
    await space.untilReady('older');
    expect(await space.condition('younger', 'Scheduled')).toMatchObject({ reason: 'Unschedulable' });
    await space.remove('older');
    await space.untilReady('younger');
    await space.remove('younger');
  });
});

describe('deleting a VM works', () => {
  test.each(['pending', 'unready', 'unschedulable', 'refused', 'stalled', 'running'] as const)(
    'while it is %s',
    async (state) => {
      const space = await world.namespace(`del-${state}`);
      if (state === 'refused') {
        await make(quotas, 'none', { spec: { hard: { pods: '0' } } }, space.name);
        await expect.poll(() => space.tryPod(), slow).toMatch('exceeded quota');
      }
      world.kubelet.behave(() =>
        state === 'pending' || state === 'unready' ? { kind: state } : { kind: 'run' },
      );
      await space.deploy('vm', {
        ...(state === 'unschedulable' ? { nodeName: 'n9' } : {}),
        ...(state === 'stalled' ? { gpuPassthrough: 'Enabled' } : {}),
      });
      await expect
        .poll(async () => (await space.vm('vm')).status?.conditions?.length ?? 0, slow)
        .toBeGreaterThan(0);
      // Older versions put it on every VM.
      const body = { metadata: { finalizers: ['svc3.dev/cleanup'] } };
      await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body });
      await space.remove('vm');
      await expect
        .poll(
          () =>
            space.vm('vm').then(
              () => 'there',
              () => 'gone',
            ),
          slow,
        )
        .toBe('gone');
      world.kubelet.behave(() => ({ kind: 'run' }));
    },
  );
});

test('a node that is deleted and registers again under its name has the VMs that it had, and no more than it has room for', async () => {
  const space = await world.namespace('again');
  await space.deploy('vm');
  await space.untilReady('vm');
  const uid = (await world.client.get(nodes, 'n1')).metadata.uid;
  const pod = await space.pod('vm');
  await world.kubelet.removeNode('n1');
  await world.kubelet.addNode({ name: 'n1', allocatable: { cpu: '1' } });
  expect((await world.client.get(nodes, 'n1')).metadata.uid).not.toBe(uid);
  await space.deploy('other');
  await space.until('other', 'Scheduled', {
    reason: 'Unschedulable',
    message: expect.stringContaining('Insufficient cpu'),
  });
  await space.untilReady('vm');
  expect((await space.pod('vm'))?.metadata.uid).toBe(pod?.metadata.uid);
  await space.remove('vm');
  await space.untilReady('other');
  await space.remove('other');
});
