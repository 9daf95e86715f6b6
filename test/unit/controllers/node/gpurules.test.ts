/** The architecture's table "GPU passthrough, all rules": each row by its number, where it is decided. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { VmSpec } from '../../../../src/api/vm.ts';
import type { VmConfigSpec } from '../../../../src/api/vmconfig.ts';
import { decideNode } from '../../../../src/controllers/node/decide.ts';
import { bundleOf } from '../../../../src/controllers/node/hardware.ts';
import { gpuDevices } from '../../../../src/nodeagent/offer.ts';
import { readSysfs } from '../../../../src/nodeagent/sysfs.ts';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { place } from '../../../../src/placement/place.ts';
import { effectiveSettings } from '../../../../src/controllers/vm/resolve/effective.ts';
import { type Machine, machineRoot, machines, writeMachine } from '../../../support/machines.ts';
import { aNode, aPod, aRequest, ranges } from '../../placement/builders.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const rules = { towerCards: ['1002:679e'] };

function effective(
  spec: Partial<VmSpec>,
  given: {
    architecture?: 'amd64' | 'arm64';
    config?: VmConfigSpec;
    cluster?: boolean;
    services?: boolean;
  } = {},
) {
  const { architecture = 'amd64', config, cluster = true, services = true } = given;
  return effectiveSettings({
    spec: { powerState: 'Running', ...spec },
    config,
    image: { reference: 'r.example.com/i@sha256:1', architecture },
    iso: undefined,
    gpuPassthroughEnabled: cluster,
    hostPortsAllowed: [],
    services: { ssh: services, screenshare: services },
  });
}

async function hardwareOf(machine: Machine) {
  const root = await mkdtemp(join(tmpdir(), 'svc3-rules-'));
  await writeMachine(root, machine);
  const hardware = await readSysfs(machineRoot(root));
  await rm(root, { recursive: true });
  return hardware;
}

describe('GPU passthrough', () => {
  test('rule 1: ARM is always on; an explicit off is answered with a warning', () => {
    expect(
      effective({ gpuPassthrough: 'Disabled' }, { architecture: 'arm64', cluster: false }),
    ).toMatchObject({
      settings: { gpuPassthrough: 'Enabled' },
      warnings: [expect.stringContaining('on arm64 GPU passthrough is always enabled')],
    });
  });

  test('rule 2: x86 is off by default; config turns it on, deploy overrides config both ways', () => {
    const gpu = (deploy?: 'Enabled' | 'Disabled', config?: 'Enabled' | 'Disabled') => {
      const result = effective(deploy === undefined ? {} : { gpuPassthrough: deploy }, {
        config: config === undefined ? {} : { gpuPassthrough: config },
      });
      return result.kind === 'effective' ? result.settings.gpuPassthrough : result.reason;
    };
    expect(gpu()).toBe('Disabled');
    expect(gpu(undefined, 'Enabled')).toBe('Enabled');
    expect(gpu('Disabled', 'Enabled')).toBe('Disabled');
    expect(gpu('Enabled', 'Disabled')).toBe('Enabled');
  });

  test('rule 3: a node needs cluster, administrator and hardware', async () => {
    const hardware = JSON.stringify(await hardwareOf(machines.towerTwoD500));
    const isEnabled = (cluster: boolean, allowed: boolean, annotation: string) =>
      decideNode(
        {
          metadata: storedMeta({
            name: 'n1',
            labels: allowed ? { 'svc3.dev/allow-gpu-passthrough': 'true' } : {},
            annotations: { 'svc3.dev/hardware': annotation },
          }),
        },
        { gpuPassthroughEnabled: cluster, nodeAgentEnabled: true, nodeAgentSelector: {}, ...rules },
      ).isEnabled;
    const none = JSON.stringify(await hardwareOf(machines.noGpu));
    const all = [true, false].flatMap((cluster) =>
      [true, false].flatMap((allowed) =>
        [hardware, none].map((found) => [
          cluster && allowed && found === hardware,
          isEnabled(cluster, allowed, found),
        ]),
      ),
    );
    expect(all).toHaveLength(8);
    for (const [wanted, found] of all) expect(found).toBe(wanted);
  });

  test('rule 3: placement takes only enabled nodes, and says which are not', () => {
    const inventory = new Inventory(ranges);
    inventory.setNode(aNode('n1', { gpu: 1 }));
    expect(place(inventory, aRequest({ gpu: true }))).toMatchObject({
      message: '0/1 nodes are available: 1 not enabled for GPU passthrough.',
    });
  });

  test('rule 4: on x86 the GPU turns the console off, with a warning, and warns where nothing else leads in', () => {
    expect(
      effective({ gpuPassthrough: 'Enabled', vncConsole: 'Enabled' }, { services: false }),
    ).toMatchObject({
      settings: { vncConsole: 'Disabled' },
      warnings: [
        expect.stringContaining('gpuPassthrough turns the VNC console off'),
        expect.stringContaining('no host port for SSH or screen sharing'),
      ],
    });
  });

  test('rule 5: the tower gives exactly two D500-class cards, both in one bundle', async () => {
    const two = bundleOf(await hardwareOf(machines.towerTwoD500), rules);
    expect(two).toMatchObject({ kind: 'bundle', bundle: { groups: [21, 22] } });
    for (const machine of [
      machines.towerOneD500,
      machines.towerThreeD500,
      machines.towerD300,
      machines.towerD700,
    ])
      expect(bundleOf(await hardwareOf(machine), rules).kind).toBe('none');
  });

  test('rule 6: at most one GPU VM per x86 node: one device, and placement counts it', async () => {
    const hardware = await hardwareOf(machines.towerTwoD500);
    expect(gpuDevices({ hardware, rules, isEnabled: true, isAllocated: false })).toHaveLength(1);
    const inventory = new Inventory(ranges);
    // Whatever a device plugin advertises.
    inventory.setNode(aNode('n1', { gpuEnabled: true, gpu: 1000 }));
    inventory.setPod(aPod('p1', 'n1', { gpu: 1 }));
    expect(place(inventory, aRequest({ gpu: true }))).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough in use.',
    });
  });

  test('rule 7: an x86 VM that asks is refused where the cluster has it off', () => {
    expect(effective({ gpuPassthrough: 'Enabled' }, { cluster: false })).toMatchObject({
      kind: 'refused',
      reason: 'GPUPassthroughDisabled',
    });
  });
});

describe('bad input: what nodes claim', () => {
  let inventory: Inventory;
  const gpuRequest = aRequest({ gpu: true });
  const offered = (gpu: number) => inventory.setNode(aNode('n1', { gpuEnabled: true, gpu }));

  beforeEach(() => {
    inventory = new Inventory(ranges);
  });

  test('a capacity that goes from 1 to 0 while a VM runs takes no other VM, then or when it is back', () => {
    offered(1);
    inventory.setPod(aPod('p1', 'n1', { gpu: 1 }));
    offered(0);
    expect(place(inventory, gpuRequest)).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough device not ready.',
    });
    offered(1);
    expect(place(inventory, gpuRequest)).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough in use.',
    });
    inventory.removePod('p1');
    expect(place(inventory, gpuRequest)).toMatchObject({ kind: 'placed', node: 'n1' });
  });

  test('a label on a node that has no GPU leads to a clear refusal', () => {
    offered(0);
    expect(place(inventory, gpuRequest)).toMatchObject({
      message: '0/1 nodes are available: 1 GPU passthrough device not ready.',
    });
  });
});
