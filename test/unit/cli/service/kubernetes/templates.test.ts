import { describe, expect, test } from 'vitest';
import { createVmConfigs } from '../../../../../src/cli/service/kubernetes/vmconfigs.ts';
import { createVmPools } from '../../../../../src/cli/service/kubernetes/vmpools.ts';
import { createVms } from '../../../../../src/cli/service/kubernetes/vms.ts';
import type { Vms } from '../../../../../src/cli/service/types.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';
import type { DeployRequest } from '../../../../../src/wire/deploy.ts';
import { aVm } from '../../../controllers/vm/builders.ts';

/** A kube-apiserver that takes what it is sent and shows nothing. */
const client = {
  create: async (_resource: unknown, object: object) => ({ ...object, status: {} }),
  patch: async () => aVm(),
  get: async () => {
    throw new Svc3Error('Forbidden', 'no');
  },
} as unknown as KubeClient;
const followable = { client, informers: {} as never };

test.each([
  ['a VM configuration', createVmConfigs],
  ['a VM pool', createVmPools],
] as const)('%s whose setting has no effect is warned of, as over HTTP', async (_what, create) => {
  const warnings: string[] = [];
  const service = create(followable, (text) => warnings.push(text));
  await service.create('team', { name: 'ci', image: 'disk', memory: 1 });
  expect(warnings).toEqual([]);
  await service.create('team', { name: 'ci', image: 'disk', memory: 1, displayDPI: 96 });
  expect(warnings).toEqual(['display.dpi has no effect: screens of QEMU report no dots per inch']);
});

describe('fields that svc3 does not have', () => {
  /** What a pod has and a VM has not, and a word that is written wrong. */
  const given: object = {
    image: 'disk',
    memory: 1,
    affinity: { podAntiAfinity: {} },
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: 'zone',
        whenUnsatisfiable: 'DoNotSchedule',
        labelSelector: {},
        minDomains: 2,
      },
    ],
  };
  const request = given as DeployRequest;
  const warnings: string[] = [];
  const warning = (text: string): void => void warnings.push(text);
  const http = (): never => {
    throw new Error('no HTTP API is needed');
  };
  const vms: Vms = createVms(followable, { http, warning });
  const options = {
    wait: false as const,
    signal: AbortSignal.timeout(60_000),
    progress: () => undefined,
    noteCreated: () => undefined,
  };

  test.each<[command: string, run: () => Promise<unknown>]>([
    ['vm deploy', () => vms.deploy('team', request, options)],
    ['vm set', () => vms.set('team', 'vm', request, options)],
    [
      'vmc create',
      () => createVmConfigs(followable, warning).create('team', { ...request, name: 'c', image: 'disk' }),
    ],
    [
      'pool create',
      () => createVmPools(followable, warning).create('team', { ...request, name: 'p', image: 'disk' }),
    ],
  ])('are named by %s, as over HTTP', async (_command, run) => {
    warnings.length = 0;
    await run();
    expect(warnings).toEqual([
      'unknown field "affinity.podAntiAfinity"',
      'unknown field "topologySpreadConstraints[0].minDomains"',
    ]);
  });
});

test('a VM pool is warned of what its disks have not; a VM configuration may be for others', async () => {
  const warnings: string[] = [];
  const request = { name: 'ci', image: 'disk', memory: 1, disk: { storageClassName: 'fast' } };
  const warn = (text: string) => warnings.push(text);
  await createVmConfigs({ client, informers: {} as never }, warn).create('team', request);
  expect(warnings).toEqual([]);
  await createVmPools({ client, informers: {} as never }, warn).create('team', request);
  expect(warnings).toEqual([expect.stringMatching(/^disk\.storageClassName has no effect/)]);
});
