import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import { countedPod, slimPod } from '../../../../../src/controllers/vm/pod/slimpod.ts';
import { podFacts } from '../../../../../src/placement/podfacts.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { aPod } from '../builders.ts';

const owner = (kind: string, apiVersion = 'svc3.dev/v1') => [
  { apiVersion, kind, name: 'web', uid: 'u', controller: true },
];

function podOf(ownerReferences: object[] | undefined): Pod {
  return {
    metadata: {
      ...storedMeta({ name: 'p', labels: { app: 'web' } }),
      deletionTimestamp: '2026-11-01T10:00:00Z',
      annotations: { note: 'long' },
      managedFields: [{ manager: 'kubelet' }],
      ...(ownerReferences === undefined ? {} : { ownerReferences }),
    },
    spec: {
      nodeName: 'n1',
      hostNetwork: true,
      overhead: { cpu: '1m' },
      resources: { requests: { memory: '3Gi' }, limits: { cpu: '4' } },
      serviceAccountName: 'x',
      containers: [
        {
          name: 'a',
          image: 'long',
          resources: { requests: { cpu: '1' }, limits: { cpu: '2' } },
          ports: [{ containerPort: 80 }, { containerPort: 81, hostPort: 8081 }],
        },
        { name: 'b', ports: [{ containerPort: 80 }] },
      ],
      initContainers: [{ name: 'i', restartPolicy: 'Always', resources: { limits: { cpu: '2' } } }],
    },
    status: { phase: 'Running', podIP: '10.0.0.1' },
  } as unknown as Pod;
}

describe('what is kept of a pod', () => {
  test.each(['VM', 'VMPool'])('of a %s is everything but who wrote what', (kind) => {
    const pod = podOf(owner(kind));
    const { managedFields: _, ...metadata } = pod.metadata;
    expect(slimPod(pod)).toEqual({ ...pod, metadata });
  });

  test('that a VM has left, deleted with --cascade=orphan, is what runs in it and what svc3 has written', () => {
    const labels = { 'svc3.dev/vm': 'web' };
    const annotations = { 'svc3.dev/runner-spec': '{}' };
    const pod = podOf(undefined);
    const left = {
      ...pod,
      metadata: { ...pod.metadata, labels, annotations: { ...annotations, note: 'long' } },
    };
    const { managedFields: _, ...metadata } = left.metadata;
    expect(slimPod(left)).toEqual({ ...left, metadata: { ...metadata, annotations } });
    const ofJob = { ...left, metadata: { ...left.metadata, ownerReferences: owner('Job', 'batch/v1') } };
    expect(slimPod(ofJob as Pod).metadata).not.toHaveProperty('annotations');
  });

  test.each([
    ['nobody', undefined],
    ['a Job', owner('Job', 'batch/v1')],
    ['a VM of another group', owner('VM', 'other.example.com/v1')],
    ['a VM of a group that begins alike', owner('VM', 'svc3.dev.example.com/v1')],
    ['another kind of ours', owner('Image')],
  ])('of %s is what placement and people who select it read', (_sentence, ownerReferences) => {
    const { name, namespace, uid, resourceVersion, deletionTimestamp } = podOf(undefined).metadata;
    expect(slimPod(podOf(ownerReferences))).toStrictEqual({
      metadata: {
        name,
        namespace,
        uid,
        resourceVersion,
        deletionTimestamp,
        labels: { app: 'web' },
        ...(ownerReferences === undefined ? {} : { ownerReferences }),
      },
      spec: {
        nodeName: 'n1',
        hostNetwork: true,
        overhead: { cpu: '1m' },
        resources: { requests: { memory: '3Gi' } },
        containers: [
          {
            name: 'a',
            resources: { requests: { cpu: '1' } },
            ports: [{ containerPort: 81, hostPort: 8081 }],
          },
          { name: 'b' },
        ],
        initContainers: [{ name: 'i', restartPolicy: 'Always' }],
      },
      status: { phase: 'Running' },
    });
  });

  test('of another counts as much as the whole pod would', () => {
    const { ownerReferences: _, ...metadata } = aPod({ nodeName: 'n1' }).metadata;
    const pod = { ...aPod({ nodeName: 'n1' }), metadata };
    expect(podFacts(slimPod(pod))).toEqual(podFacts(pod));
    const asWhole = podOf(undefined);
    expect(podFacts(slimPod(asWhole))?.requests).toEqual(podFacts(asWhole)?.requests);
  });

  test('of another that is resized is what counts of it, and nothing of its status', () => {
    const pod = podOf(undefined);
    const requests = { cpu: '8', memory: '8Gi' };
    const status = {
      phase: 'Running',
      conditions: [{ type: 'PodResizeInProgress', status: 'True' }],
      containerStatuses: [
        { name: 'a', resources: { requests }, allocatedResources: { cpu: '1' } },
        { name: 'b', resources: {} },
      ],
    };
    const resized = { ...pod, status } as unknown as Pod;
    const slim = slimPod(resized);
    expect(podFacts(slim)?.requests).toEqual(podFacts(resized)?.requests);
    expect(slim.spec.containers).toMatchObject([{ resources: { requests } }, {}]);
    expect(slim.spec.containers[1]).not.toHaveProperty('resources');
    expect(slim.status).toEqual({ phase: 'Running' });
  });

  test('of one that has no status yet is as little', () => {
    const { status: _, ...pod } = podOf(undefined);
    expect(slimPod(pod as Pod).status).toEqual({});
  });
});

describe('what is counted of a pod', () => {
  test.each(['VM', 'VMPool'])('of a %s is as much as of the whole pod, also before it is bound', (kind) => {
    const labels = { long: 'x'.repeat(3_000) };
    const whole = aPod({ metadata: { ownerReferences: owner(kind), annotations: labels, labels } });
    const counted = countedPod(whole);
    expect(podFacts(counted, 'u')).toEqual(podFacts(whole, 'u'));
    expect(podFacts(counted, 'u')?.node).toBe('n1');
    expect(counted.metadata).not.toHaveProperty('annotations');
    expect(JSON.stringify(counted).length - 3_000).toBeLessThan(1_500);
  });

  test('of another is what is kept of it', () => {
    const pod = podOf(undefined);
    expect(countedPod(pod)).toEqual(slimPod(pod));
  });
});
