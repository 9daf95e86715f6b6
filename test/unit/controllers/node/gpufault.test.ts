import { describe, expect, it } from 'vitest';
import type { NodeCondition, Node } from '../../../../src/api/core.ts';
import type { VmStatus } from '../../../../src/api/vm.ts';
import { type GpuFault, gpuConditionPatch, gpuFaultOf } from '../../../../src/controllers/node/gpufault.ts';
import { aCondition, aVm, effective as withoutGpu } from '../vm/builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const unavailable = aCondition('Booted', {
  status: 'False',
  reason: 'GPUUnavailable',
  message: 'a GPU of the node is in use: busy; starting again in 8 s',
});

const effective = { ...withoutGpu, gpuPassthrough: 'Enabled' as const };

describe('the fault of a node', () => {
  it.each<[string, VmStatus | undefined, GpuFault | undefined]>([
    [
      'is what the VM on it says, without the next attempt',
      { node: 'n1', effective, conditions: [unavailable] },
      { node: 'n1', message: 'VM team/web cannot use the GPUs: a GPU of the node is in use: busy' },
    ],
    ['is none without a status', undefined, undefined],
    ['is none without a node', { effective, conditions: [unavailable] }, undefined],
    ['is none of a VM that no settings are known of', { node: 'n1', conditions: [unavailable] }, undefined],
    [
      'is none of a VM without a GPU, whatever its runner says',
      { node: 'n1', effective: withoutGpu, conditions: [unavailable] },
      undefined,
    ],
    [
      'is none of a VM on ARM, which is given none',
      { node: 'n1', effective: { ...effective, architecture: 'arm64' }, conditions: [unavailable] },
      undefined,
    ],
    ['is none while the VM runs', { node: 'n1', effective, conditions: [aCondition('Booted')] }, undefined],
    [
      'is none where QEMU ended for another reason',
      { node: 'n1', effective, conditions: [{ ...unavailable, reason: 'QEMUFailed' }] },
      undefined,
    ],
  ])('%s', (_sentence, status, fault) => {
    expect(gpuFaultOf(aVm(status === undefined ? {} : { status }))).toEqual(fault);
  });

  it('is none of a VM that is being deleted', () => {
    const vm = aVm({ status: { node: 'n1', effective, conditions: [unavailable] } });
    const deletionTimestamp = '2026-11-01T10:00:00Z';
    expect(gpuFaultOf({ ...vm, metadata: { ...vm.metadata, deletionTimestamp } })).toBeUndefined();
  });
});

describe('the condition of a node', () => {
  const now = new Date('2026-11-01T10:00:00.123Z');
  const type = 'svc3.dev/GPUUnavailable';
  const fault = { node: 'n1', message: 'VM a/b cannot use the GPUs: busy' };
  const told: NodeCondition = {
    type,
    status: 'True',
    reason: 'GPUUnavailable',
    message: fault.message,
    lastTransitionTime: '2026-11-01T09:00:00Z',
    lastHeartbeatTime: '2026-11-01T09:00:00Z',
  };
  const aNode = (...conditions: NodeCondition[]): Node => ({
    metadata: storedMeta({ name: 'n1' }),
    status: { conditions },
  });
  const ready: NodeCondition = { type: 'Ready', status: 'True' };

  it.each<[string, Node, GpuFault | undefined, object | undefined]>([
    ['is not written where there is no fault', aNode(ready), undefined, undefined],
    ['is not written again while it is true', aNode(ready, told), fault, undefined],
    [
      'is written with its time',
      aNode(ready),
      fault,
      { ...told, lastTransitionTime: '2026-11-01T10:00:00Z', lastHeartbeatTime: '2026-11-01T10:00:00Z' },
    ],
    [
      'keeps the time since when, where only the sentence changes',
      aNode({ ...told, message: 'before' }),
      fault,
      { ...told, lastHeartbeatTime: '2026-11-01T10:00:00Z' },
    ],
    [
      'is put right where somebody wrote another status',
      aNode({ ...told, status: 'False' }),
      fault,
      { ...told, lastTransitionTime: '2026-11-01T10:00:00Z', lastHeartbeatTime: '2026-11-01T10:00:00Z' },
    ],
    [
      'is put right where somebody wrote another reason',
      aNode({ ...told, reason: 'Theirs' }),
      fault,
      { ...told, lastHeartbeatTime: '2026-11-01T10:00:00Z' },
    ],
    ['goes with the fault', aNode(told), undefined, { type, $patch: 'delete' }],
    [
      'of a Node that has no status yet is not written',
      { metadata: storedMeta({ name: 'n1' }) },
      undefined,
      undefined,
    ],
  ])('%s', (_sentence, node, present, patch) => {
    expect(gpuConditionPatch(node, present, now)).toEqual(patch);
  });
});
