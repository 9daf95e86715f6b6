import { beforeAll, describe, expect, it } from 'vitest';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Node } from '../../../../src/api/core.ts';
import { decideNode, nodePatch } from '../../../../src/controllers/node/decide.ts';
import { readSysfs } from '../../../../src/nodeagent/sysfs.ts';
import { type Machine, machineRoot, machines, writeMachine } from '../../../support/machines.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const allow = { 'svc3.dev/allow-gpu-passthrough': 'true' };
const reports: Record<string, string> = {};
const claims = (change: object) => JSON.stringify({ ...JSON.parse(reports['tower'] ?? '{}'), ...change });

async function report(machine: Machine): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'svc3-decide-'));
  await writeMachine(root, machine);
  const hardware = await readSysfs(machineRoot(root));
  await rm(root, { recursive: true });
  return JSON.stringify(hardware);
}

beforeAll(async () => {
  const held = structuredClone<Machine>(machines.towerTwoD500);
  held.devices[1]!.driver = 'snd_hda_intel';
  reports['tower'] = await report(machines.towerTwoD500);
  reports['one card'] = await report(machines.towerOneD500);
  reports['no GPU'] = await report(machines.noGpu);
  reports['held'] = await report(held);
  reports['arm64'] = claims({ architecture: 'arm64' });
  reports['old agent'] = '{"version":0,"gpus":2}';
  reports['not JSON'] = 'two cards';
  reports['1,000 cards'] = claims({
    displayDevices: Array.from({ length: 1000 }, () => JSON.parse(reports['tower'] ?? '').displayDevices[0]),
  });
});

function aNode(labels: Record<string, string>, hardware: string | undefined): Node {
  const annotation = hardware === undefined ? undefined : reports[hardware];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: storedMeta({
      name: 'n1',
      labels,
      ...(annotation === undefined ? {} : { annotations: { 'svc3.dev/hardware': annotation } }),
    }),
  };
}

describe('the label of a node (spec: GPU passthrough rules 1, 3 and 5)', () => {
  it.each<[string, boolean, Record<string, string>, string | undefined, boolean, string | undefined]>([
    ['rule 3: cluster on, node enabled, hardware fit: enabled', true, allow, 'tower', true, undefined],
    [
      'rule 3: the cluster has it off',
      false,
      allow,
      'tower',
      false,
      'GPU passthrough is off in this cluster (chart value gpuPassthrough.enabled)',
    ],
    [
      'rule 3: the node was not enabled by the administrator',
      true,
      {},
      'tower',
      false,
      'the node is not enabled for GPU passthrough (svc3 node gpu enable n1)',
    ],
    [
      'rule 3: the node was disabled by the administrator',
      true,
      { 'svc3.dev/allow-gpu-passthrough': 'false' },
      'tower',
      false,
      'the node is not enabled for GPU passthrough (svc3 node gpu enable n1)',
    ],
    [
      'bad input: a label with a wrong value enables nothing and is named',
      true,
      { 'svc3.dev/allow-gpu-passthrough': 'yes' },
      'tower',
      false,
      'label svc3.dev/allow-gpu-passthrough is "yes" and only "true" enables the node (svc3 node gpu enable n1)',
    ],
    [
      'rule 5: a tower with one card',
      true,
      allow,
      'one card',
      false,
      'the hardware does not qualify: this tower model needs exactly 2 D500-class cards and has 1',
    ],
    [
      'unfit hardware is said before the permission that would not help',
      true,
      {},
      'no GPU',
      false,
      'the hardware does not qualify: it has no GPU',
    ],
    [
      'a driver of the host on a card: enabled, but it says what is lacking',
      true,
      allow,
      'held',
      true,
      'not usable yet: 0000:02:00.1 is held by snd_hda_intel, not by vfio-pci',
    ],
    [
      'no report of an agent yet',
      true,
      allow,
      undefined,
      false,
      'the node agent has not reported its hardware yet',
    ],
    [
      'bad input: an annotation that is not JSON',
      true,
      allow,
      'not JSON',
      false,
      'the hardware annotation is not JSON',
    ],
    [
      'bad input: an agent of an old version',
      true,
      allow,
      'old agent',
      false,
      'the hardware annotation has version 0; this operator reads version 1',
    ],
    [
      'bad input: an annotation of 1,000 cards',
      true,
      allow,
      '1,000 cards',
      false,
      'the hardware annotation is too long to be true',
    ],
    [
      'bad input: an annotation of another architecture',
      true,
      allow,
      'arm64',
      false,
      'the hardware annotation is of an arm64 machine',
    ],
    [
      'rule 1: an ARM node needs no label',
      true,
      { 'kubernetes.io/arch': 'arm64' },
      undefined,
      false,
      undefined,
    ],
  ])('%s', (_sentence, gpuPassthroughEnabled, labels, hardware, ...verdict) => {
    const [isEnabled, reason] = verdict;
    const settings = {
      gpuPassthroughEnabled,
      towerCards: ['1002:679e'],
      nodeAgentEnabled: true,
      nodeAgentSelector: {},
    };
    expect(decideNode(aNode(labels, hardware), settings)).toEqual({ isEnabled, reason });
  });
});

describe('a fault that a VM reports', () => {
  const settings = {
    gpuPassthroughEnabled: true,
    towerCards: ['1002:679e'],
    nodeAgentEnabled: true,
    nodeAgentSelector: {},
  };
  const fault = { node: 'n1', message: 'VM a/b cannot use the GPUs: busy' };

  it('is the reason of a node that is enabled, which stays so; whose VM it is only its condition tells', () => {
    expect(decideNode(aNode(allow, 'tower'), settings, fault)).toEqual({
      isEnabled: true,
      reason: 'not usable now: a VM cannot use the GPUs (condition svc3.dev/GPUUnavailable)',
    });
  });

  it.each([
    ['a node that is not enabled', {}, 'tower', 'the node is not enabled for GPU passthrough'],
    ['a node whose cards a driver of the host has', allow, 'held', 'not usable yet: '],
  ])('does not hide the reason of %s', (_sentence, labels, hardware, reason) => {
    expect(decideNode(aNode(labels, hardware), settings, fault).reason).toContain(reason);
  });
});

describe('what an agent has found that is no part of the installation any more', () => {
  const settings = {
    gpuPassthroughEnabled: true,
    towerCards: ['1002:679e'],
    nodeAgentEnabled: false,
    nodeAgentSelector: {},
  };
  const labelled = { ...allow, 'svc3.dev/gpu-passthrough': 'enabled' };
  const why = 'no node agent looks at the hardware in this cluster (chart value nodeAgent.enabled)';

  it('is taken away with the label, and the reason is said', () => {
    const node = aNode(labelled, 'tower');
    expect(nodePatch(node, decideNode(node, settings))).toEqual({
      labels: { 'svc3.dev/gpu-passthrough': null },
      annotations: { 'svc3.dev/gpu-passthrough-reason': why, 'svc3.dev/hardware': null },
    });
  });

  it('is taken away of a node that a narrower selector leaves out, and of no other', () => {
    const narrow = { ...settings, nodeAgentEnabled: true, nodeAgentSelector: { pool: 'vms' } };
    const left = aNode(labelled, 'tower');
    const reason = 'no node agent looks at the hardware of this node (chart value nodeAgent.nodeSelector)';
    expect(nodePatch(left, decideNode(left, narrow))).toEqual({
      labels: { 'svc3.dev/gpu-passthrough': null },
      annotations: { 'svc3.dev/gpu-passthrough-reason': reason, 'svc3.dev/hardware': null },
    });
    const kept = aNode({ ...labelled, pool: 'vms' }, 'tower');
    expect(nodePatch(kept, decideNode(kept, narrow))).toBeUndefined();
  });

  it('is taken away of an ARM node and where passthrough is off, too', () => {
    const arm = aNode({ 'kubernetes.io/arch': 'arm64' }, 'arm64');
    const patch = { annotations: { 'svc3.dev/hardware': null } };
    expect(nodePatch(arm, decideNode(arm, settings))).toEqual(patch);
    const off = decideNode(aNode({}, 'tower'), { ...settings, gpuPassthroughEnabled: false });
    expect(nodePatch(aNode({}, 'tower'), off)).toMatchObject(patch);
  });

  it('leaves nothing to write on a node of which it is gone', () => {
    const metadata = storedMeta({ name: 'n1', annotations: { 'svc3.dev/gpu-passthrough-reason': why } });
    expect(nodePatch({ metadata }, decideNode({ metadata }, settings))).toBeUndefined();
  });
});

describe('what is written on a node', () => {
  const node = (labels: Record<string, string>, annotations: Record<string, string>): Node => ({
    metadata: storedMeta({ name: 'n1', labels, annotations }),
  });
  const label = { 'svc3.dev/gpu-passthrough': 'enabled' };
  const why = { 'svc3.dev/gpu-passthrough-reason': 'why' };

  it.each<[string, Node, boolean, string | undefined, object | undefined]>([
    ['nothing where all is right', node(label, {}), true, undefined, undefined],
    ['nothing where the reason stands already', node({}, why), false, 'why', undefined],
    [
      'the label, and the reason goes',
      node({}, why),
      true,
      undefined,
      {
        labels: label,
        annotations: { 'svc3.dev/gpu-passthrough-reason': null },
      },
    ],
    [
      'a label set by hand goes',
      node(label, why),
      false,
      'why',
      { labels: { 'svc3.dev/gpu-passthrough': null } },
    ],
    [
      'a label with a wrong value is put right',
      node({ 'svc3.dev/gpu-passthrough': 'true' }, {}),
      true,
      undefined,
      {
        labels: label,
      },
    ],
    [
      'an empty label goes',
      node({ 'svc3.dev/gpu-passthrough': '' }, why),
      false,
      'why',
      {
        labels: { 'svc3.dev/gpu-passthrough': null },
      },
    ],
    [
      'another reason',
      node({}, why),
      false,
      'other',
      {
        annotations: { 'svc3.dev/gpu-passthrough-reason': 'other' },
      },
    ],
  ])('%s', (_sentence, before, isEnabled, reason, patch) => {
    expect(nodePatch(before, { isEnabled, reason })).toEqual(patch);
  });
});
