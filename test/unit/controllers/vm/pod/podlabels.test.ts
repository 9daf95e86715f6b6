import { describe, expect, test } from 'vitest';
import { labelMetadata, labelPatch, ownLabels } from '../../../../../src/controllers/vm/pod/podlabels.ts';
import { aPod, aVm } from '../builders.ts';

const labelled = (labels: Record<string, string>) => aVm({ metadata: { labels } });
/** A pod as it was made for a VM with these labels. */
const podOf = (labels: Record<string, string>) => aPod({ metadata: { ...labelMetadata(labelled(labels)) } });

describe('the labels of a VM', () => {
  test('are those of its pod, but for those that svc3 goes by', () => {
    const given = {
      app: 'web',
      'example.com/team': 'a',
      'svc3.dev/vm': 'another',
      'tag.svc3.dev/fast': 'true',
      'app.kubernetes.io/name': 'mine',
      'notsvc3.dev/a': 'b',
    };
    const { labels, annotations } = labelMetadata(labelled(given));
    expect(labels).toEqual({
      app: 'web',
      'example.com/team': 'a',
      'notsvc3.dev/a': 'b',
      ...ownLabels('web'),
    });
    expect(annotations).toEqual({ 'svc3.dev/vm-labels': 'app,example.com/team,notsvc3.dev/a' });
  });

  test('leave no annotation where there are none', () => {
    expect(labelMetadata(labelled({})).annotations).toEqual({});
  });
});

describe('the labels of a pod', () => {
  test('are left alone while they are those of its VM', () => {
    expect(labelPatch(labelled({ app: 'web' }), podOf({ app: 'web' }))).toBeUndefined();
    expect(labelPatch(labelled({}), podOf({}))).toBeUndefined();
  });

  test('follow those of the VM: changed, added and taken away', () => {
    expect(labelPatch(labelled({ app: 'api', tier: 'b' }), podOf({ app: 'web', old: 'x' }))).toEqual({
      labels: { app: 'api', tier: 'b', old: null },
      annotations: { 'svc3.dev/vm-labels': 'app,tier' },
    });
    expect(labelPatch(labelled({}), podOf({ app: 'web' }))).toEqual({
      labels: { app: null },
      annotations: { 'svc3.dev/vm-labels': null },
    });
  });

  test('of others and of svc3 itself stay', () => {
    const pod = podOf({ app: 'web' });
    const touched = {
      ...pod,
      metadata: {
        ...pod.metadata,
        labels: { ...pod.metadata.labels, injected: 'true' },
        annotations: { 'svc3.dev/vm-labels': 'app,svc3.dev/vm' },
      },
    };
    expect(labelPatch(labelled({}), touched)?.labels).toEqual({ app: null });
  });
});
